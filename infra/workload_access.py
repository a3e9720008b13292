"""What pods may do in Google Cloud: Workload Identity principals and the few roles they get."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pulumi
from pulumi_gcp import projects, secretmanager, storage

from settings.names import BENCHMARK_ACCOUNT, KEDA_ACCOUNT, KEDA_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCacheGrant:
    """The right to read and to create, not to change or delete, what lies under one key."""

    bucket: pulumi.Input[str]
    """The bucket: `CompileCacheBucket.name`."""
    key: str
    """First part of the names of the objects, e.g. 64 hexadecimal digits."""
    account: str
    """Kubernetes service account that only pods of this key have, e.g. "vllm-server-0123456789ab"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAccessArgs:
    """Arguments of `WorkloadAccess`."""

    project: str
    """Id of the project that holds the secrets."""
    project_number: pulumi.Input[str]
    """Number of the cluster's project; principals begin with it."""
    workload_pool: pulumi.Input[str]
    """The cluster's pool of identities, `PROJECT.svc.id.goog`: `Cluster.workload_pool`, which waits for the cluster."""
    namespace: str
    """Kubernetes namespace of the service accounts."""
    secret_readers: Sequence[tuple[str, str]] = ()
    """Pairs of a Kubernetes service account and the Secret Manager secret that its pods read."""
    results_bucket: pulumi.Input[str] | None = None
    """Bucket that the benchmark's pods write their results to. None grants none."""
    compile_caches: Sequence[CompileCacheGrant] = ()
    """Who reads and stores which compile caches, each account once."""
    keda: bool = False
    """Whether KEDA's operator, in a namespace of its own, reads Cloud Monitoring."""
    dataset_object: tuple[str, str] | None = None
    """Bucket and object that the benchmark's pods read their requests from. None grants none."""


# Source: IAM docs, "Attribute reference for IAM Conditions", resource.name and extract().
_PROGRESS: Final = "resource.name.extract('/objects/runs/{run}/.progress/') != ''"


class WorkloadAccess(pulumi.ComponentResource):
    """Roles for pods, granted to Kubernetes service accounts directly: no Google service account, no key.

    Each grant names one bucket, one object or one secret; KEDA's names the project's metrics. Without any it is empty.
    """

    def __init__(self, name: str, args: WorkloadAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:WorkloadAccess", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        if args.results_bucket is not None:
            # A result that is there stays: pods neither delete an object nor write over one, but for their own progress.
            # Source: Cloud Storage JSON API, objects.insert: writing over an object takes storage.objects.delete.
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
        for cache in args.compile_caches:
            for grant, role in (("caches", "objectViewer"), ("new-caches", "objectCreator")):
                storage.BucketIAMMember(
                    # Another key is another grant: made before its pods come, and taken back after the last of the former's.
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
                # That one object: what else is in somebody's bucket of requests is nobody's business here.
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
    """The IAM principal of one Kubernetes service account: the project's number first, its id inside the pool."""
    return pulumi.Output.format(
        "principal://iam.googleapis.com/projects/{0}/locations/global/workloadIdentityPools/{1}/subject/ns/{2}/sa/{3}",
        args.project_number,
        args.workload_pool,
        args.namespace,
        account,
    )
