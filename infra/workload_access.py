"""Google Cloud permissions of pods: Workload Identity principals and their roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pulumi
from pulumi_gcp import projects, secretmanager, storage

from facts.names import BATCH_ACCOUNT, BENCHMARK_ACCOUNT, KEDA_ACCOUNT, KEDA_NAMESPACE
from settings.derived.compile_cache import PersistedCache

if TYPE_CHECKING:
    from pulumi_gcp.storage import BucketIAMMemberConditionArgsDict as Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAccessArgs:
    """Arguments of `WorkloadAccess`."""

    project: str
    """Id of the project that holds the secrets."""
    project_number: pulumi.Input[str]
    """Number of the cluster's project, part of every principal."""
    workload_pool: pulumi.Input[str]
    """Workload identity pool, `PROJECT.svc.id.goog`: `Cluster.workload_pool`, which waits for the cluster."""
    namespace: str
    """Kubernetes namespace of the service accounts."""
    secret_readers: Sequence[tuple[str, str]] = ()
    """Pairs of Kubernetes service account and Secret Manager secret that its pods read."""
    results_bucket: pulumi.Input[str] | None = None
    """Bucket for the benchmark pods' results. None: no grant."""
    batch_bucket: pulumi.Input[str] | None = None
    """Bucket for batches. None: no grant."""
    compile_caches: Sequence[PersistedCache] = ()
    """Compile caches, one per account, whose pods may read and create objects of their key, but not change or delete one."""
    keda_reads_metrics: bool = False
    """Whether to grant KEDA's operator, in its own namespace, read access to Cloud Monitoring."""
    dataset_object: tuple[str, str] | None = None
    """Bucket and object of the benchmark's dataset. None: no grant."""


# Source: IAM docs, "Attribute reference for IAM Conditions", resource.name and extract().
_PROGRESS: Final = "resource.name.extract('/objects/runs/{run}/.progress/') != ''"
_CHECKPOINTS: Final = "resource.name.extract('/objects/batches/{batch}/checkpoints/') != ''"
"""Objects of a batch that its pods replace and delete. Documents and results are none of them."""


class WorkloadAccess(pulumi.ComponentResource):
    """Roles granted directly to Kubernetes service accounts: no Google service account, no key.

    Each grant covers one bucket, one object or one secret; KEDA's covers the project's metrics.
    """

    def __init__(self, name: str, args: WorkloadAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:WorkloadAccess", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        def grant(
            what: str, account: str, role: str, bucket: pulumi.Input[str], *, only: Condition | None = None
        ) -> None:
            """A role on a bucket, or where a condition is given on some of its objects."""
            storage.BucketIAMMember(
                f"{name}-{account}-{what}",
                bucket=bucket,
                role=f"roles/storage.{role}",
                member=principal(args, account),
                condition=only,
                opts=child,
            )

        if args.results_bucket is not None:
            # Pods may not delete or overwrite objects, except their own progress reports.
            # Source: Cloud Storage JSON API, objects.insert: overwriting requires storage.objects.delete.
            own: Condition = {"title": "progress of a measurement", "expression": _PROGRESS}
            grant("results", BENCHMARK_ACCOUNT, "objectCreator", args.results_bucket)
            grant("listing", BENCHMARK_ACCOUNT, "objectViewer", args.results_bucket)
            grant("progress", BENCHMARK_ACCOUNT, "objectUser", args.results_bucket, only=own)
        if args.batch_bucket is not None:
            # What a client wrote as a result stays: no other client, late or wrong, can replace or delete it.
            changing: Condition = {"title": "checkpoints of batches", "expression": _CHECKPOINTS}
            grant("batches", BATCH_ACCOUNT, "objectViewer", args.batch_bucket)
            grant("new-results", BATCH_ACCOUNT, "objectCreator", args.batch_bucket)
            grant("checkpoints", BATCH_ACCOUNT, "objectUser", args.batch_bucket, only=changing)
        for cache in args.compile_caches:
            # One grant per key: created before the key's pods, deleted after the last of them.
            release: Condition = {
                "title": "compile caches of one release",
                "expression": pulumi.Output.format(
                    "resource.name.startsWith('projects/_/buckets/{0}/objects/{1}/')", cache.bucket, cache.key
                ),
            }
            grant("caches", cache.account, "objectViewer", cache.bucket, only=release)
            grant("new-caches", cache.account, "objectCreator", cache.bucket, only=release)
        if args.dataset_object is not None:
            bucket, object_name = args.dataset_object
            # Only that object, not the rest of the user's bucket.
            dataset: Condition = {
                "title": "the benchmark's dataset",
                "expression": f"resource.name == {json.dumps(f'projects/_/buckets/{bucket}/objects/{object_name}')}",
            }
            grant("dataset", BENCHMARK_ACCOUNT, "objectViewer", bucket, only=dataset)
        if args.keda_reads_metrics:
            projects.IAMMember(
                f"{name}-{KEDA_ACCOUNT}-metrics",
                project=args.project,
                role="roles/monitoring.viewer",
                member=principal(replace(args, namespace=KEDA_NAMESPACE), KEDA_ACCOUNT),
                opts=child,
            )
        for account, secret in args.secret_readers:
            secretmanager.SecretIamMember(
                f"{name}-{account}-{secret}",
                project=args.project,
                secret_id=secret,
                role="roles/secretmanager.secretAccessor",
                member=principal(args, account),
                opts=child,
            )
        self.register_outputs({})


def principal(args: WorkloadAccessArgs, account: str) -> pulumi.Output[str]:
    """The IAM principal of a Kubernetes service account."""
    return pulumi.Output.format(
        "principal://iam.googleapis.com/projects/{0}/locations/global/workloadIdentityPools/{1}/subject/ns/{2}/sa/{3}",
        args.project_number,
        args.workload_pool,
        args.namespace,
        account,
    )
