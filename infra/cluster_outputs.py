"""What a stack needs of its cluster: its own, another stack's, or one that is known by a kubeconfig only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import pulumi

from settings.derived.traffic import VpcRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutputs:
    """What a stack needs of its cluster, whoever created it."""

    name: pulumi.Input[str]
    identity: pulumi.Input[str]
    """Different for a later cluster of the same name: objects are replaced when it changes, and not when the kubeconfig does."""
    kubeconfig: pulumi.Input[str]
    """Secret: it holds no credential but reveals the control plane's address."""
    project_number: pulumi.Input[str]
    workload_pool: pulumi.Input[str]
    image_prefix: pulumi.Input[str]
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, the prefix of Docker Hub image names."""
    results_bucket: pulumi.Input[str]
    """Name of the bucket for benchmark results; empty without one."""
    ranges: pulumi.Input[VpcRanges]
    """The VPC's ranges. Of an unknown one, network policies admit all private ranges."""
    keda: str = ""
    """KEDA version that the owner of the cluster installs on it; empty without it, and where a stack joins the cluster."""
    keda_reads_metrics: bool = False
    """Whether that KEDA has the role to read Cloud Monitoring."""

    def image(self, reference: str) -> pulumi.Output[str]:
        """Full name of a Docker Hub image."""
        return pulumi.Output.concat(self.image_prefix, "/", reference)

    def exports(self, *, joinable: bool) -> dict[str, Any]:
        """Stack outputs for people and for `fleet`; of the stack that owns the cluster, also for those that join it: the other half of
        `SHARED`.
        """
        shown = {
            "clusterName": self.name,
            "imagePrefix": self.image_prefix,
            "resultsBucket": self.results_bucket,
        }
        shared = {
            "clusterIdentity": self.identity,
            "projectNumber": self.project_number,
            "workloadPool": self.workload_pool,
            "ranges": pulumi.Output.from_input(self.ranges).apply(asdict),
            "keda": self.keda,
            "kedaReadsMetrics": self.keda_reads_metrics,
        }
        return shown | shared if joinable else shown


SHARED: Final = (
    *("project", "region", "namespace", "clusterName", "clusterIdentity", "projectNumber", "workloadPool"),
    *("imagePrefix", "resultsBucket", "ranges", "keda", "kedaReadsMetrics"),
)
"""Outputs of a stack that owns a cluster, for those that join it: `ClusterOutputs.exports`, and of `settings.derived.readme.described` the
project, the region and the namespace. `kubeconfig` is read apart, because it is secret."""
