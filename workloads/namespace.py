"""A stack's namespace: pod security level, GPU quota, service accounts and network policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pulumi
import pulumi_kubernetes as k8s

from settings.derived.traffic import Traffic, VpcRanges
from workloads.names import BATCH_ACCOUNT, BENCHMARK_ACCOUNT, ROUTER_APP, WRITER_ACCOUNT
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs
from workloads.space import once_created

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ResourceQuotaSpecArgsDict

POD_SECURITY_VERSION = "v1.36"
"""Pinned, so that a cluster upgrade cannot tighten the rules for running pods; the manifests are checked against this
version. An older cluster applies its latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """Arguments of `Namespace`."""

    name: str
    """Name of the Kubernetes namespace, e.g. "vllm"."""
    traffic: Traffic
    """Workloads and their allowed connections; accounts, pod security level and network policies follow from it."""
    ranges: pulumi.Input[VpcRanges] | None = None
    """VPC ranges from another stack, `PlatformOutputs.ranges`; override those of `traffic`."""
    gpus: int | None = None
    """GPU quota of the namespace. None: no quota, for replicas managed externally."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object."""


class Namespace(pulumi.ComponentResource):
    """The Kubernetes namespace of one stack, with quota, accounts and policies."""

    name: pulumi.Output[str]
    """Name of the namespace. What takes it is created after the namespace."""

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Namespace", name, None, opts)
        part_of = dict(args.labels)
        child = pulumi.ResourceOptions(parent=self)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": args.name, "labels": {**part_of, **pod_security_labels(args.traffic)}},
            opts=child,
        )
        self.name = once_created(namespace, args.name)
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
    """A service account without a Kubernetes API token; `name` is the Pulumi resource name."""
    return k8s.core.v1.ServiceAccount(
        name,
        metadata={"name": account, "namespace": namespace, "labels": labels},
        # These pods do not use the Kubernetes API. Workload Identity and the Secret Manager driver need no
        # token in the pod: the node's metadata server and driver fetch their own.
        automount_service_account_token=False,
        opts=opts,
    )


def pod_security_labels(traffic: Traffic) -> dict[str, str]:
    """Pod Security levels. Our pods meet `restricted`. The chart inferencepool sets no security context, and its
    pods must run beside the pool, so with it `baseline` is enforced and `restricted` only reported.
    """
    gateway = traffic.gateway
    return _levels("restricted" if gateway is None or gateway.pool is None or gateway.restricted else "baseline")


def restricted() -> dict[str, str]:
    """Pod Security levels for pods that all meet `restricted`."""
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
    """GPU quota at the configured size: a mistyped `kubectl scale` cannot add nodes."""
    return {"hard": {"requests.nvidia.com/gpu": str(gpus)}}


def service_accounts(traffic: Traffic) -> tuple[str, ...]:
    """One account per kind of pod, so that each gets only its own secrets and buckets."""
    accounts = [traffic.server_account]
    if traffic.canary is not None and traffic.canary.server_account not in accounts:
        accounts.append(traffic.canary.server_account)
    if traffic.weights_writer:
        accounts.append(WRITER_ACCOUNT)
    if traffic.benchmark:
        accounts.append(BENCHMARK_ACCOUNT)
    if traffic.batch:
        accounts.append(BATCH_ACCOUNT)
    if traffic.router:
        accounts.append(ROUTER_APP)
    return tuple(accounts)
