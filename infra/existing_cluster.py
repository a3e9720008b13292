"""A cluster that this stack does not create: another stack's, or one that is known by a kubeconfig only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from settings.derived.traffic import VpcRanges
from settings.kubeconfig import read_kubeconfig
from settings.problems import SettingsError
from settings.sections.platform import Platform


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
    """KEDA version that the owner of the cluster installs on it; empty without it."""

    def image(self, reference: str) -> pulumi.Output[str]:
        """Full name of a Docker Hub image."""
        return pulumi.Output.concat(self.image_prefix, "/", reference)

    def exports(self, *, joinable: bool) -> dict[str, Any]:
        """Stack outputs for people and for `fleet`; of the stack that owns the cluster, also for those that join it."""
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
        }
        return shown | shared if joinable else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingClusterArgs:
    """Arguments of `ExistingCluster`."""

    cluster: ClusterOutputs
    """The cluster: `cluster_of_kubeconfig`, or `cluster_of_stack` of infra/stack_cluster.py."""


class ExistingCluster(pulumi.ComponentResource):
    """The Kubernetes provider of an existing GKE Autopilot cluster, of which nothing is changed."""

    kubernetes: k8s.Provider

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ExistingCluster", name, None, opts)
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=args.cluster.kubeconfig,
            cluster_identifier=args.cluster.identity,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def cluster_of_kubeconfig(
    platform: Platform, project: str, region: str, project_number: pulumi.Input[str]
) -> ClusterOutputs:
    """The cluster of `platform.kubeconfig`, whose ranges are unknown. Raises pulumi.RunError for a file with credentials, or of another
    project or region.
    """
    try:
        # The engine starts a program in the project's folder.
        file = Path(platform.kubeconfig or "").absolute()
        text, name, server = read_kubeconfig(file, stack="", project=project, region=region)
    except SettingsError as error:
        raise pulumi.RunError(error.problems[0].text()) from None
    return ClusterOutputs(
        name=name,
        identity=server,
        kubeconfig=pulumi.Output.secret(text),
        project_number=project_number,
        workload_pool=f"{project}.svc.id.goog",
        image_prefix=platform.image_prefix or "docker.io",
        results_bucket=platform.results_bucket or "",
        ranges=VpcRanges(),
    )
