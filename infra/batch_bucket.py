"""Bucket for the documents and results of batches."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from infra.naming import Place
from infra.private_bucket import private_bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBucketArgs:
    """Arguments of `BatchBucket`."""

    place: Place
    """Project, region, labels and name prefix: the bucket is `<project>-<name_prefix>-vllm-batches`."""
    retention_days: int = 30
    """Days after which documents and results are deleted."""


class BatchBucket(pulumi.ComponentResource):
    """A private bucket in the fleet's region with a retention period.

    `pulumi destroy` deletes it only when it is empty: the results of a batch cost hours of GPUs. What is deleted is gone at once:
    pods replace checkpoints every minute, which would be stored and billed for another week, and a document that is past its
    retention must not be readable.
    """

    bucket_name: pulumi.Output[str]

    def __init__(self, name: str, args: BatchBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:BatchBucket", name, None, opts)
        bucket = private_bucket(
            name,
            args.place,
            "vllm-batches",
            parent=self,
            retention_days=args.retention_days,
            soft_delete=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucket": self.bucket_name})
