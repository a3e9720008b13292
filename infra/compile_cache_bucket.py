"""Bucket for the servers' compile caches."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from infra.naming import Place, bucket_name_of
from settings.arguments import checked


@checked
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
        bucket = storage.Bucket(
            f"{name}-bucket",
            name=bucket_name_of(args.place.project, args.place.name_prefix, "vllm-caches"),
            project=args.place.project,
            # Cloud Storage returns upper case; lower case would be a permanent diff.
            location=args.place.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=True,
            # The contents can be recreated; the policy pack requires other buckets to keep theirs.
            labels={**args.place.labels, "scratch": "true"},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucket": self.bucket_name})
