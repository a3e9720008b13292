"""The namespace of a stack: its pod security level, GPU quota, service accounts and network policies."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from settings.capacity import GPUS_PER_NODE
from settings.settings import Settings
from workloads.manifest import Manifest
from workloads.names import BENCHMARK_ACCOUNT, SERVER_ACCOUNT, WRITER_ACCOUNT, labels
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs

POD_SECURITY_VERSION = "v1.36"
"""Pinned, so that a cluster upgrade cannot tighten the rules under running pods; the version the manifests are checked
against. A cluster older than it applies its own latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """Arguments of `Namespace`."""

    settings: Settings


class Namespace(pulumi.ComponentResource):
    """The Kubernetes namespace of one stack and the guards that hold for everything in it."""

    name: pulumi.Output[str]
    """Name of the namespace, known once it exists."""

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Namespace", name, None, opts)
        settings = args.settings
        part_of = labels(settings, settings.server.name)
        child = pulumi.ResourceOptions(parent=self)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": settings.namespace, "labels": {**part_of, **pod_security_labels(settings)}},
            opts=child,
        )
        self.name = namespace.metadata.name
        quota = gpu_quota(settings)
        if quota is not None:
            k8s.core.v1.ResourceQuota(
                f"{name}-gpu-quota",
                metadata={"name": "gpu", "namespace": self.name, "labels": part_of},
                spec=quota,
                opts=child,
            )
        for account in service_accounts(settings):
            k8s.core.v1.ServiceAccount(
                f"{name}-{account}",
                metadata={"name": account, "namespace": self.name, "labels": part_of},
                # None of our pods talks to the Kubernetes API. Workload Identity and the Secret Manager driver need no
                # token in the pod either: the node's metadata server and driver fetch their own.
                automount_service_account_token=False,
                opts=child,
            )
        NetworkPolicies(
            f"{name}-network-policies", NetworkPoliciesArgs(settings=settings, namespace=self.name), opts=child
        )
        self.register_outputs({"name": self.name})


def pod_security_labels(settings: Settings) -> dict[str, str]:
    """Pod Security levels. Our own pods meet `restricted`; the endpoint picker's chart sets no security context, and its
    pods must live beside the pool, so with the gateway only `baseline` can be enforced and `restricted` is reported.
    """
    prefix = "pod-security.kubernetes.io"
    levels = {
        "enforce": "baseline" if settings.gateway.enabled else "restricted",
        "audit": "restricted",
        "warn": "restricted",
    }
    return {
        key: value
        for mode, level in levels.items()
        for key, value in ((f"{prefix}/{mode}", level), (f"{prefix}/{mode}-version", POD_SECURITY_VERSION))
    }


def gpu_quota(settings: Settings) -> Manifest | None:
    """A ceiling on GPUs, at what the stack file asks for: a mistyped `kubectl scale` cannot buy nodes.

    None when `server.replicas` is `external`: the number has another owner then, and a quota here would fight it.
    """
    if settings.server.replicas == "external":
        return None
    return {"hard": {"requests.nvidia.com/gpu": str(settings.server.replicas * GPUS_PER_NODE)}}


def service_accounts(settings: Settings) -> tuple[str, ...]:
    """One account per kind of pod, so that each can be granted its own secrets and buckets and no other's."""
    accounts = [SERVER_ACCOUNT]
    if settings.weights.source == "hyperdisk":
        accounts.append(WRITER_ACCOUNT)
    if settings.benchmark.enabled:
        accounts.append(BENCHMARK_ACCOUNT)
    return tuple(accounts)
