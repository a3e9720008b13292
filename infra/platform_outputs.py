"""What a stack that has a cluster tells the others."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from settings.derived.traffic import VpcRanges

KEYS = {
    "clusterName": "cluster_name",
    "clusterIdentity": "cluster_identity",
    "project": "project",
    "projectNumber": "project_number",
    "region": "region",
    "namespace": "namespace",
    "workloadPool": "workload_pool",
    "imagePrefix": "image_prefix",
    "resultsBucket": "results_bucket",
    "network": "network",
    "proxyOnlySubnet": "proxy_only_subnet",
    "nodeRange": "node_range",
    "podRange": "pod_range",
    "serviceRange": "service_range",
    "proxyOnlyRange": "proxy_only_range",
}
"""Keys of the stack output `platform`, and the fields they fill. Renaming one breaks every stack that joined."""

KEDA = "keda"
"""Key of the same output, where the stack installs KEDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOutputs:
    """A cluster and what stands around it, made by this stack or by another."""

    cluster_name: pulumi.Output[str]
    cluster_identity: pulumi.Output[str]
    """Changes with the cluster and with nothing else: `Cluster.identity`."""
    project: pulumi.Output[str]
    """Project id of the cluster."""
    project_number: pulumi.Output[str]
    region: pulumi.Output[str]
    namespace: pulumi.Output[str]
    """Namespace that the stack with the cluster uses itself; a guest must not share it."""
    workload_pool: pulumi.Output[str]
    image_prefix: pulumi.Output[str]
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, in front of a Docker Hub image's name."""
    results_bucket: pulumi.Output[str]
    """Name of the bucket for benchmark results."""
    network: pulumi.Output[str]
    """Self link of the VPC."""
    proxy_only_subnet: pulumi.Output[str]
    """Self link of the proxy-only subnet; empty where there is none."""
    node_range: pulumi.Output[str]
    """CIDR range of the nodes; empty, as the others, where nobody told."""
    pod_range: pulumi.Output[str]
    service_range: pulumi.Output[str]
    proxy_only_range: pulumi.Output[str]
    """CIDR range of the proxy-only subnet; empty where there is none."""
    keda: pulumi.Output[str] | None = None
    """Version of KEDA that the stack with the cluster installs; None where it installs none, or is not this one."""
    kubeconfig: pulumi.Output[str]
    """Secret: it opens nothing by itself, but it says where the control plane is."""

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
        """The stack output `platform`: everything but the kubeconfig, which is a secret output of its own."""
        told: dict[str, pulumi.Output[str]] = {key: getattr(self, field) for key, field in KEYS.items()}
        return told if self.keda is None else told | {KEDA: self.keda}
