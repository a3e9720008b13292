"""What pods may do in Google Cloud: Workload Identity principals and the few roles they get."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pulumi
from pulumi_gcp import secretmanager, storage

from infra.platform_outputs import PlatformOutputs
from settings.names import BENCHMARK_ACCOUNT, SERVER_ACCOUNT, WRITER_ACCOUNT
from settings.settings import Settings


def secret_readers(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Pairs of a Kubernetes service account and the Secret Manager secret it reads, sorted."""
    readers: set[tuple[str, str]] = set()
    if settings.weights.token_secret is not None:
        # Whoever downloads needs the token: the writer once, or each server for itself; the clients their tokenizer.
        account = WRITER_ACCOUNT if settings.weights.source == "hyperdisk" else SERVER_ACCOUNT
        readers.add((account, settings.weights.token_secret))
    if settings.server.api_key_secret is not None:
        readers.add((SERVER_ACCOUNT, settings.server.api_key_secret))
    if settings.benchmark.enabled:
        named = (settings.weights.token_secret, settings.server.api_key_secret)
        readers |= {(BENCHMARK_ACCOUNT, secret) for secret in named if secret is not None}
    return tuple(sorted(readers))


def dataset_object(settings: Settings) -> tuple[str, str] | None:
    """Bucket and object that the benchmark's pods read their requests from; None where they read none of Cloud Storage."""
    dataset = settings.benchmark.dataset
    return dataset.bucket_and_object if settings.benchmark.enabled and dataset is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAccessArgs:
    """Arguments of `WorkloadAccess`."""

    settings: Settings
    """The stack that the pods belong to."""
    platform: PlatformOutputs
    """The cluster that they run on, and its bucket."""


class WorkloadAccess(pulumi.ComponentResource):
    """Roles for pods, granted to Kubernetes service accounts directly: no Google service account, no key.

    Each grant names one bucket, one object or one secret. A stack that needs none gets an empty component.
    """

    def __init__(self, name: str, args: WorkloadAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:WorkloadAccess", name, None, opts)
        settings, platform = args.settings, args.platform
        child = pulumi.ResourceOptions(parent=self)
        if settings.benchmark.enabled:
            storage.BucketIAMMember(
                f"{name}-{BENCHMARK_ACCOUNT}-results",
                bucket=platform.results_bucket,
                # Objects alone, and overwriting them: a client that is started again writes its result again.
                role="roles/storage.objectUser",
                member=principal(platform, settings.namespace, BENCHMARK_ACCOUNT),
                opts=child,
            )
        if (dataset := dataset_object(settings)) is not None:
            bucket, object_name = dataset
            storage.BucketIAMMember(
                f"{name}-{BENCHMARK_ACCOUNT}-dataset",
                bucket=bucket,
                role="roles/storage.objectViewer",
                member=principal(platform, settings.namespace, BENCHMARK_ACCOUNT),
                # That one object: what else is in somebody's bucket of requests is nobody's business here.
                condition={
                    "title": "the benchmark's dataset",
                    "expression": f"resource.name == {json.dumps(f'projects/_/buckets/{bucket}/objects/{object_name}')}",
                },
                opts=child,
            )
        for account, secret in secret_readers(settings):
            secretmanager.SecretIamMember(
                f"{name}-{account}-{secret}",
                project=settings.project,
                secret_id=secret,
                role="roles/secretmanager.secretAccessor",
                member=principal(platform, settings.namespace, account),
                opts=child,
            )
        self.register_outputs({})


def principal(platform: PlatformOutputs, namespace: str, account: str) -> pulumi.Output[str]:
    """The IAM principal of one Kubernetes service account: the project's number first, its id inside the pool."""
    return pulumi.Output.format(
        "principal://iam.googleapis.com/projects/{0}/locations/global/workloadIdentityPools/{1}/subject/ns/{2}/sa/{3}",
        platform.project_number,
        platform.workload_pool,
        namespace,
        account,
    )
