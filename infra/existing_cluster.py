"""A cluster that this stack does not create: another stack's, or one that is known by a kubeconfig only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from infra.cluster_outputs import ClusterOutputs
from settings.derived.traffic import VpcRanges
from settings.kubeconfig import read_kubeconfig
from settings.problems import SettingsError
from settings.sections.platform import Platform


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
        text, name, server = read_kubeconfig(file, project=project, region=region)
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
