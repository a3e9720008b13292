"""A private bucket: what the buckets of a fleet have in common."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
from pulumi_gcp import storage

from infra.naming import Place, bucket_name_of


def private_bucket(
    name: str,
    place: Place,
    what: str,
    *,
    parent: pulumi.Resource,
    retention_days: int | None = None,
    labels: Mapping[str, str] | None = None,
    force_destroy: bool = False,
    soft_delete: storage.BucketSoftDeletePolicyArgs | None = None,
) -> storage.Bucket:
    """The bucket `<project>-<name_prefix>-<what>` in the fleet's region, private whatever its grants say.

    `retention_days`: age at which objects are deleted; None: never. `labels`: default: those of `place`. `force_destroy`: whether
    `pulumi destroy` deletes it with its contents. `soft_delete`: default: Cloud Storage's week.
    """
    lifecycle = None
    if retention_days is not None:
        lifecycle = [
            storage.BucketLifecycleRuleArgs(
                action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
                condition=storage.BucketLifecycleRuleConditionArgs(age=retention_days),
            )
        ]
    return storage.Bucket(
        f"{name}-bucket",
        name=bucket_name_of(place.project, place.name_prefix, what),
        project=place.project,
        # Cloud Storage returns upper case; lower case would be a permanent diff.
        location=place.region.upper(),
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        force_destroy=force_destroy,
        lifecycle_rules=lifecycle,
        soft_delete_policy=soft_delete,
        labels=place.labels if labels is None else labels,
        opts=pulumi.ResourceOptions(parent=parent),
    )
