"""Bucket for benchmark results."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import storage

from infra.naming import Place
from infra.private_bucket import private_bucket
from settings.sections.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsBucketArgs:
    """Arguments of `ResultsBucket`."""

    place: Place
    """Project, region, labels and name prefix: the bucket is `<project>-<name_prefix>-vllm-results`."""
    results: Results = field(default_factory=Results)
    """Days after which a result is deleted."""


class ResultsBucket(pulumi.ComponentResource):
    """A private bucket in the fleet's region with a retention period.

    `pulumi destroy` deletes it only when it is empty: an hour of the fleet that produced
    a result costs more than storing it. `docs/google-cloud.md` has the command that empties it.
    """

    bucket: storage.Bucket

    def __init__(self, name: str, args: ResultsBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ResultsBucket", name, None, opts)
        self.bucket = private_bucket(
            name, args.place, "vllm-results", parent=self, retention_days=args.results.retention_days
        )
        self.register_outputs({"bucket": self.bucket.name})
