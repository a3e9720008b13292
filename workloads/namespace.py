"""A stack's namespace: pod security level and GPU quota."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_kubernetes as k8s

from workloads.names import once_created, stack_labels

POD_SECURITY_VERSION = "v1.36"
"""Pinned, so that a cluster upgrade cannot tighten the rules for running pods; the manifests are checked against this
version. An older cluster applies its latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """Arguments of `Namespace`."""

    name: str
    """Name of the Kubernetes namespace, e.g. "vllm"."""
    gpu_quota: int | None = None
    """GPUs that its pods may request: a mistyped `kubectl scale` cannot add nodes. None: no quota, for replicas managed externally."""
    pod_security: Literal["baseline", "restricted"] = "restricted"
    """Enforced Pod Security level. Our pods meet `restricted`. The chart inferencepool sets no security context, and its pods must be in
    the pool's namespace, so with it `baseline` is enforced and `restricted` only reported."""


class Namespace(pulumi.ComponentResource):
    """The Kubernetes namespace of one stack."""

    name: pulumi.Output[str]
    """Name of the namespace. What takes it is created after the namespace."""

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Namespace", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": args.name, "labels": {**stack_labels(), **pod_security_labels(args.pod_security)}},
            opts=child,
        )
        self.name = once_created(namespace, args.name)
        if args.gpu_quota is not None:
            k8s.core.v1.ResourceQuota(
                f"{name}-gpu-quota",
                metadata={"name": "gpu", "namespace": self.name, "labels": stack_labels()},
                spec={"hard": {"requests.nvidia.com/gpu": str(args.gpu_quota)}},
                opts=child,
            )
        self.register_outputs({"name": self.name})


def pod_security_labels(enforced: Literal["baseline", "restricted"] = "restricted") -> dict[str, str]:
    """Labels of a namespace with this Pod Security level; what does not meet `restricted` is reported."""
    prefix = "pod-security.kubernetes.io"
    levels = {"enforce": enforced, "audit": "restricted", "warn": "restricted"}
    return {
        key: value
        for mode, level in levels.items()
        for key, value in ((f"{prefix}/{mode}", level), (f"{prefix}/{mode}-version", POD_SECURITY_VERSION))
    }
