"""The namespace of a stack: its pod security level, GPU quota, service accounts and network policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pulumi
import pulumi_kubernetes as k8s

from settings.derived.traffic import Traffic, VpcRanges
from workloads.names import BENCHMARK_ACCOUNT, WRITER_ACCOUNT
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ResourceQuotaSpecArgsDict

POD_SECURITY_VERSION = "v1.36"
"""Pinned, so that a cluster upgrade cannot tighten the rules under running pods; the version the manifests are checked
against. A cluster older than it applies its own latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """Arguments of `Namespace`."""

    name: str
    """Name of the Kubernetes namespace, e.g. "vllm"."""
    traffic: Traffic
    """Which pods live here and who may talk to whom: accounts, pod security level and network policies follow from it."""
    ranges: pulumi.Input[VpcRanges] | None = None
    """The VPC's ranges, where another stack knows them: `PlatformOutputs.ranges`. They replace those of `traffic`."""
    gpus: int | None = None
    """Most GPUs that the namespace's pods may ask for. None: no ceiling, where the number of replicas has another owner."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object."""

    def __post_init__(self) -> None:
        if self.gpus is not None and self.gpus < 0:
            raise ValueError(f"NamespaceArgs.gpus is {self.gpus}; allowed: 0 or more, or None for no ceiling")


class Namespace(pulumi.ComponentResource):
    """The Kubernetes namespace of one stack and the guards that hold for everything in it."""

    name: pulumi.Output[str]
    """Name of the namespace, known once it exists."""

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Namespace", name, None, opts)
        part_of = dict(args.labels)
        child = pulumi.ResourceOptions(parent=self)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": args.name, "labels": {**part_of, **pod_security_labels(args.traffic)}},
            opts=child,
        )
        self.name = namespace.metadata.name
        if args.gpus is not None:
            k8s.core.v1.ResourceQuota(
                f"{name}-gpu-quota",
                metadata={"name": "gpu", "namespace": self.name, "labels": part_of},
                spec=gpu_quota(args.gpus),
                opts=child,
            )
        for account in service_accounts(args.traffic):
            service_account(f"{name}-{account}", account, self.name, part_of, child)
        NetworkPolicies(
            f"{name}-network-policies",
            NetworkPoliciesArgs(namespace=self.name, traffic=args.traffic, ranges=args.ranges, labels=args.labels),
            opts=child,
        )
        self.register_outputs({"name": self.name})


def service_account(
    name: str,
    account: str,
    namespace: pulumi.Input[str],
    labels: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> k8s.core.v1.ServiceAccount:
    """An account of pods that do not call the Kubernetes API; `name` is the resource's in Pulumi."""
    return k8s.core.v1.ServiceAccount(
        name,
        metadata={"name": account, "namespace": namespace, "labels": labels},
        # None of our pods talks to the Kubernetes API. Workload Identity and the Secret Manager driver need no
        # token in the pod either: the node's metadata server and driver fetch their own.
        automount_service_account_token=False,
        opts=opts,
    )


def pod_security_labels(traffic: Traffic) -> dict[str, str]:
    """Pod Security levels. Our own pods meet `restricted`; the endpoint picker's chart sets no security context, and its
    pods must live beside the pool, so with the gateway only `baseline` can be enforced and `restricted` is reported.
    """
    return _levels("restricted" if traffic.gateway is None else "baseline")


def restricted() -> dict[str, str]:
    """Pod Security levels of a namespace whose pods all meet `restricted`."""
    return _levels("restricted")


def _levels(enforced: Literal["baseline", "restricted"]) -> dict[str, str]:
    prefix = "pod-security.kubernetes.io"
    levels = {"enforce": enforced, "audit": "restricted", "warn": "restricted"}
    return {
        key: value
        for mode, level in levels.items()
        for key, value in ((f"{prefix}/{mode}", level), (f"{prefix}/{mode}-version", POD_SECURITY_VERSION))
    }


def gpu_quota(gpus: int) -> ResourceQuotaSpecArgsDict:
    """A ceiling on GPUs, at what is asked for: a mistyped `kubectl scale` cannot buy nodes."""
    return {"hard": {"requests.nvidia.com/gpu": str(gpus)}}


def service_accounts(traffic: Traffic) -> tuple[str, ...]:
    """One account per kind of pod, so that each can be granted its own secrets and buckets and no other's."""
    accounts = [traffic.server_account]
    if traffic.canary is not None and traffic.canary.server_account not in accounts:
        accounts.append(traffic.canary.server_account)
    if traffic.weights_writer:
        accounts.append(WRITER_ACCOUNT)
    if traffic.benchmark:
        accounts.append(BENCHMARK_ACCOUNT)
    return tuple(accounts)
