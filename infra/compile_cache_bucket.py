"""The bucket that keeps what servers compile at their start."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from infra.naming import Place, bucket_name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCacheBucketArgs:
    """Arguments of `CompileCacheBucket`."""

    place: Place
    """Project, region, labels, and the part of the name after the project's id: `<project>-<name_prefix>-vllm-caches`."""


class CompileCacheBucket(pulumi.ComponentResource):
    """A private bucket in the fleet's region, with one object for each release.

    `pulumi destroy` removes it with what is in it: each object is compiled again by the first pod that misses it. Nothing ends by its
    age: a pod that serves could then store in the place of what a pod stored before it served.
    """

    bucket_name: pulumi.Output[str]

    def __init__(self, name: str, args: CompileCacheBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:CompileCacheBucket", name, None, opts)
        bucket = storage.Bucket(
            f"{name}-bucket",
            name=bucket_name_of(args.place.project, args.place.name_prefix, "vllm-caches"),
            project=args.place.project,
            # Cloud Storage answers in capitals; asked in small letters, every run would show a change.
            location=args.place.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=True,
            # What is in it is made again: the policy pack asks others to keep what they hold.
            labels={**args.place.labels, "scratch": "true"},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucket": self.bucket_name})
