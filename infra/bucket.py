"""A private Cloud Storage bucket."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from infra.naming import bucket_name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketArgs:
    """Arguments of `Bucket`."""

    project: str
    """Id of the project, the first part of the bucket's name: names are global."""
    location: str
    """Region of the bucket, the fleet's, e.g. "europe-west4"."""
    retention_days: int | None = None
    """Days after which an object is deleted. None: never."""
    soft_delete_seconds: int | None = None
    """How long a deleted object is kept, and billed. None: Cloud Storage's week."""
    force_destroy: bool = False
    """Whether `pulumi destroy` deletes it with its contents, which can be computed again: it is then labeled `scratch`. False: only an
    empty bucket is deleted; `docs/google-cloud.md` has the command that empties it."""


class Bucket(pulumi.ComponentResource):
    """The bucket `<project>-<stack>-vllm-<name>`, private whatever its grants say."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: BucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Bucket", name, None, opts)
        expiry = storage.BucketLifecycleRuleArgs(
            action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
            condition=storage.BucketLifecycleRuleConditionArgs(age=args.retention_days),
        )
        soft_delete = storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=args.soft_delete_seconds)
        bucket = storage.Bucket(
            f"{name}-bucket",
            name=bucket_name_of(args.project, pulumi.get_stack(), f"vllm-{name}"),
            # Cloud Storage returns upper case; lower case would be a permanent diff.
            location=args.location.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=args.force_destroy,
            lifecycle_rules=None if args.retention_days is None else [expiry],
            soft_delete_policy=None if args.soft_delete_seconds is None else soft_delete,
            # The policy pack requires other buckets to keep their contents.
            labels={"scratch": "true"} if args.force_destroy else None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.name = bucket.name
        self.register_outputs({"bucket": self.name})
