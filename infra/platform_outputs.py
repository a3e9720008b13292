"""Outputs of a stack that owns a cluster, as stacks that join it read them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pulumi
from pydantic.alias_generators import to_camel

from settings.derived.traffic import VpcRanges

KEDA = "keda"
"""Key of the same output if the stack installs KEDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOutputs:
    """A cluster and its platform, of this stack or another."""

    cluster_name: pulumi.Output[str]
    cluster_identity: pulumi.Output[str]
    """Identity of the cluster: `Cluster.identity`."""
    project: pulumi.Output[str]
    """Project id of the cluster."""
    project_number: pulumi.Output[str]
    region: pulumi.Output[str]
    namespace: pulumi.Output[str]
    """Namespace of the stack that owns the cluster; others must use another."""
    workload_pool: pulumi.Output[str]
    image_prefix: pulumi.Output[str]
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, the prefix of Docker Hub image names."""
    results_bucket: pulumi.Output[str]
    """Name of the bucket for benchmark results."""
    network: pulumi.Output[str]
    """Self link of the VPC."""
    proxy_only_subnet: pulumi.Output[str]
    """Self link of the proxy-only subnet, or empty."""
    node_range: pulumi.Output[str]
    """CIDR range of the nodes; empty if unknown."""
    pod_range: pulumi.Output[str]
    service_range: pulumi.Output[str]
    proxy_only_range: pulumi.Output[str]
    """CIDR range of the proxy-only subnet, or empty."""
    keda: pulumi.Output[str] | None = None
    """KEDA version installed on the cluster; None if not installed or unknown."""
    kubeconfig: pulumi.Output[str]
    """Secret: it holds no credential but reveals the control plane's address."""

    @property
    def ranges(self) -> pulumi.Output[VpcRanges]:
        """The VPC's ranges, for network policies."""
        told = pulumi.Output.all(self.node_range, self.pod_range, self.service_range, self.proxy_only_range)
        return told.apply(
            lambda known: VpcRanges(
                nodes=known[0] or None, pods=known[1] or None, services=known[2] or None, proxies=known[3] or None
            )
        )

    def export(self) -> dict[str, pulumi.Output[str]]:
        """The stack output `platform`, without the kubeconfig, which is a separate secret output."""
        told: dict[str, pulumi.Output[str]] = {key: getattr(self, field) for key, field in KEYS.items()}
        return told if self.keda is None else told | {KEDA: self.keda}


KEYS = {to_camel(one.name): one.name for one in fields(PlatformOutputs) if one.name not in ("keda", "kubeconfig")}
"""Keys of the stack output `platform` and their fields."""
