"""A cluster that this stack does not create: another stack's, or one that is known by a kubeconfig only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from facts.finding import Finding
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
    """The cluster: `cluster_of_kubeconfig` or `cluster_of_stack`."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a stack needs of the cluster that it joins."""

    proxy_only_subnet: bool = False
    """A proxy-only subnet, as a Gateway does."""
    keda: bool = False
    """KEDA, as a ScaledObject does."""


def cluster_of_stack(stack: str, project: str, region: str, namespace: str, needs: Needs) -> ClusterOutputs:
    """The cluster of another stack, by its outputs: its name in the same project and organization, or `organization/project/stack`.

    Raises pulumi.RunError if this stack, with its project, region and namespace, cannot join that cluster.
    """
    # Pulumi Cloud requires the full name in references.
    full = stack if "/" in stack else f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"
    reference = pulumi.StackReference(stack.rpartition("/")[2], stack_name=full)
    # One by one: together they would all be as secret as the kubeconfig.
    found = pulumi.Output.all(**{key: reference.get_output(key) for key in _SHARED}).apply(
        lambda outputs: joinable(outputs, stack, project, region, namespace, needs)
    )
    # After `found`, so that a stack that is not up gives one message.
    both = pulumi.Output.all(found, reference.get_output("kubeconfig"))
    kubeconfig = both.apply(lambda known: _kubeconfig(stack, known[1]))

    def output(name: str) -> pulumi.Output[str]:
        return found.apply(lambda outputs: str(outputs[name]))

    return ClusterOutputs(
        name=output("clusterName"),
        identity=output("clusterIdentity"),
        kubeconfig=pulumi.Output.secret(kubeconfig),
        project_number=output("projectNumber"),
        workload_pool=output("workloadPool"),
        image_prefix=output("imagePrefix"),
        results_bucket=output("resultsBucket"),
        ranges=found.apply(lambda outputs: VpcRanges(**outputs["ranges"])),
    )


_SHARED = (
    *("project", "region", "namespace", "clusterName", "clusterIdentity", "projectNumber", "workloadPool"),
    *("imagePrefix", "resultsBucket", "ranges", "keda"),
)
"""Outputs of a stack that owns a cluster, for those that join it."""


def _kubeconfig(stack: str, output: object) -> str:
    if not isinstance(output, str):
        raise pulumi.RunError(f"stack {stack} has no output `kubeconfig`: run `pulumi up --stack {stack}` first")
    return output


def joinable(
    outputs: Mapping[str, Any], stack: str, project: str, region: str, namespace: str, needs: Needs
) -> Mapping[str, Any]:
    """The other stack's outputs. Raises pulumi.RunError if they are missing, or if this stack cannot join its cluster."""
    for allowed, why, write in _refusals(outputs, stack, project, region, namespace, needs):
        refused = Finding(
            id="platform-stack",
            subject="vllm-fleet:platform.stack",
            found=stack,
            allowed=allowed,
            why=why,
            write=write,
        )
        raise pulumi.RunError(refused.text())
    return outputs


def _refusals(
    other: Mapping[str, Any], stack: str, project: str, region: str, namespace: str, needs: Needs
) -> Iterator[tuple[str, str, str]]:
    """What is allowed, why, and what to write."""
    if not (other["clusterIdentity"] and other["ranges"]):
        yield (
            "a stack of this project that is up and has a cluster",
            f"stack {stack} has no output `clusterIdentity`: it is not up yet, or makes no cluster",
            f"pulumi up --stack {stack}, then update this stack",
        )
        return
    if other["project"] != project:
        yield (
            f"gcp:project {other['project']}, where the cluster of {stack} is",
            f"this stack has {project}; pods cannot use another project's secrets and reservations",
            f"gcp:project: {other['project']}",
        )
    if other["region"] != region:
        yield (
            f"gcp:region {other['region']}, where the cluster of {stack} is",
            f"this stack has {region}; its pods would request zones outside the cluster's region",
            f"gcp:region: {other['region']}, and zones of that region",
        )
    if other["namespace"] == namespace:
        yield (
            "a separate namespace for each stack on a cluster",
            f"{stack} uses {namespace}; destroying this stack would delete that namespace and everything in it",
            f"vllm-fleet:namespace: {namespace}-2, or another name",
        )
    if needs.proxy_only_subnet and not other["ranges"].get("proxies"):
        yield (
            "a stack whose network has a proxy-only subnet",
            f"{stack} has none; this stack's Gateway would stay at PROGRAMMED False without a reason",
            f"vllm-fleet:network: {{proxyOnly: {{enabled: true}}}} in {stack}, then pulumi up there first",
        )
    if needs.keda and not other.get("keda"):
        yield (
            "a stack that installs KEDA on its cluster",
            f"{stack} does not install it; this stack's ScaledObject would have no controller",
            f"vllm-fleet:cluster: {{keda: true}} in {stack}, then pulumi up there first",
        )
