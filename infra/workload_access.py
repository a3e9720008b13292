"""Google Cloud permissions of pods: Workload Identity principals and their roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pulumi
from pulumi_gcp import projects, secretmanager, storage

from facts.names import BATCH_ACCOUNT, BENCHMARK_ACCOUNT, KEDA_ACCOUNT, KEDA_NAMESPACE
from settings.arguments import checked


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCacheGrant:
    """Permission to read and create, but not change or delete, objects below one key."""

    bucket: pulumi.Input[str]
    """The bucket: `CompileCacheBucket.name`."""
    key: str
    """Prefix of the objects' names, e.g. 64 hexadecimal digits."""
    account: str
    """Kubernetes service account that only pods of this key have, e.g. "vllm-server-0123456789ab"."""


@checked
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
    compile_caches: Sequence[CompileCacheGrant] = ()
    """Grants for compile caches, one per account."""
    keda: bool = False
    """Whether to grant KEDA's operator, in its own namespace, read access to Cloud Monitoring."""
    dataset_object: tuple[str, str] | None = None
    """Bucket and object of the benchmark's dataset. None: no grant."""


# Source: IAM docs, "Attribute reference for IAM Conditions", resource.name and extract().
_PROGRESS: Final = "resource.name.extract('/objects/runs/{run}/.progress/') != ''"
_CHANGING: Final = " || ".join(
    f"resource.name.extract('/objects/batches/{{batch}}/{what}') != ''"
    for what in ("leases/", "parts/", "progress.json")
)
"""Objects of a batch that clients replace and delete. Documents, results, and what ends a batch are none of them."""


class WorkloadAccess(pulumi.ComponentResource):
    """Roles granted directly to Kubernetes service accounts: no Google service account, no key.

    Each grant covers one bucket, one object or one secret; KEDA's covers the project's metrics.
    """

    def __init__(self, name: str, args: WorkloadAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:WorkloadAccess", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        if args.results_bucket is not None:
            # Pods may not delete or overwrite objects, except their own progress reports.
            # Source: Cloud Storage JSON API, objects.insert: overwriting requires storage.objects.delete.
            for grant, role in (("results", "objectCreator"), ("listing", "objectViewer"), ("progress", "objectUser")):
                storage.BucketIAMMember(
                    f"{name}-{BENCHMARK_ACCOUNT}-{grant}",
                    bucket=args.results_bucket,
                    role=f"roles/storage.{role}",
                    member=principal(args, BENCHMARK_ACCOUNT),
                    condition={"title": "progress of a measurement", "expression": _PROGRESS}
                    if grant == "progress"
                    else None,
                    opts=child,
                )
        if args.batch_bucket is not None:
            # What a client wrote as a result stays: no other client, late or wrong, can replace or delete it.
            for grant, role in (
                ("batches", "objectViewer"),
                ("new-results", "objectCreator"),
                ("leases", "objectUser"),
            ):
                storage.BucketIAMMember(
                    f"{name}-{BATCH_ACCOUNT}-{grant}",
                    bucket=args.batch_bucket,
                    role=f"roles/storage.{role}",
                    member=principal(args, BATCH_ACCOUNT),
                    condition={"title": "leases, parts and progress of batches", "expression": _CHANGING}
                    if grant == "leases"
                    else None,
                    opts=child,
                )
        for cache in args.compile_caches:
            for grant, role in (("caches", "objectViewer"), ("new-caches", "objectCreator")):
                storage.BucketIAMMember(
                    # One grant per key: created before the key's pods, deleted after the last of them.
                    f"{name}-{cache.account}-{grant}",
                    bucket=cache.bucket,
                    role=f"roles/storage.{role}",
                    member=principal(args, cache.account),
                    condition={
                        "title": "compile caches of one release",
                        "expression": pulumi.Output.format(
                            "resource.name.startsWith('projects/_/buckets/{0}/objects/{1}/')", cache.bucket, cache.key
                        ),
                    },
                    opts=child,
                )
        if args.dataset_object is not None:
            bucket, object_name = args.dataset_object
            storage.BucketIAMMember(
                f"{name}-{BENCHMARK_ACCOUNT}-dataset",
                bucket=bucket,
                role="roles/storage.objectViewer",
                member=principal(args, BENCHMARK_ACCOUNT),
                # Only that object, not the rest of the user's bucket.
                condition={
                    "title": "the benchmark's dataset",
                    "expression": f"resource.name == {json.dumps(f'projects/_/buckets/{bucket}/objects/{object_name}')}",
                },
                opts=child,
            )
        if args.keda:
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
