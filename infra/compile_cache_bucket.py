"""Bucket for the servers' compile caches."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.naming import Place
from infra.private_bucket import private_bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCacheBucketArgs:
    """Arguments of `CompileCacheBucket`."""

    place: Place
    """Project, region, labels and name prefix: the bucket is `<project>-<name_prefix>-vllm-caches`."""


class CompileCacheBucket(pulumi.ComponentResource):
    """A private bucket in the fleet's region, with one object for each release.

    `pulumi destroy` deletes it with its contents: the first pod that misses an object compiles it again. Objects do not expire by
    age: otherwise a serving pod could replace what another pod stored before it served.
    """

    bucket_name: pulumi.Output[str]

    def __init__(self, name: str, args: CompileCacheBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:CompileCacheBucket", name, None, opts)
        bucket = private_bucket(
            name,
            args.place,
            "vllm-caches",
            parent=self,
            # The contents can be recreated; the policy pack requires other buckets to keep theirs.
            force_destroy=True,
            labels={**args.place.labels, "scratch": "true"},
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucket": self.bucket_name})
