"""The bucket that keeps benchmark results."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from infra.naming import bucket_name_of, labels_of
from settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsBucketArgs:
    """Arguments of `ResultsBucket`."""

    settings: Settings
    """The stack; `settings.results` says how long a result is kept."""


class ResultsBucket(pulumi.ComponentResource):
    """A private bucket in the fleet's region whose objects end by themselves.

    `pulumi destroy` removes it when it is empty and stops at it when it is not: an hour of the fleet that produced
    a result costs more than the result's storage ever will. `docs/google-cloud.md` has the command that empties it.
    """

    bucket: storage.Bucket

    def __init__(self, name: str, args: ResultsBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ResultsBucket", name, None, opts)
        settings = args.settings
        self.bucket = storage.Bucket(
            f"{name}-bucket",
            name=bucket_name_of(settings, "vllm-results"),
            project=settings.project,
            # Cloud Storage answers in capitals; asked in small letters, every run would show a change.
            location=settings.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=False,
            lifecycle_rules=[
                storage.BucketLifecycleRuleArgs(
                    action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=storage.BucketLifecycleRuleConditionArgs(age=settings.results.retention_days),
                )
            ],
            labels=labels_of(settings),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"bucket": self.bucket.name})
