"""The cluster of another stack, by one StackReference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from facts.finding import Finding
from infra.cluster_outputs import SHARED, ClusterOutputs
from settings.derived.traffic import VpcRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a stack needs of the cluster that it joins."""

    proxy_only_subnet: bool = False
    """A proxy-only subnet, as a Gateway does."""
    keda: bool = False
    """KEDA, as a ScaledObject does."""
    keda_reads_metrics: bool = False
    """That KEDA reads Cloud Monitoring, as a trigger on load does: without the role, its operator gets 403."""


def cluster_of_stack(stack: str, project: str, region: str, namespace: str, needs: Needs) -> ClusterOutputs:
    """The cluster of another stack, by its outputs: its name in the same project and organization, or `organization/project/stack`.

    Raises pulumi.RunError if this stack, with its project, region and namespace, cannot join that cluster.
    """
    # Pulumi Cloud requires the full name in references.
    full = stack if "/" in stack else f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"
    reference = pulumi.StackReference(stack.rpartition("/")[2], stack_name=full)
    # One by one: together they would all be as secret as the kubeconfig.
    found = pulumi.Output.all(**{key: reference.get_output(key) for key in SHARED}).apply(
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


def _kubeconfig(stack: str, output: object) -> str:
    if not isinstance(output, str):
        raise pulumi.RunError(f"stack {stack} has no output `kubeconfig`: run `pulumi up --stack {stack}` first")
    return output


def joinable(
    other: Mapping[str, Any], stack: str, project: str, region: str, namespace: str, needs: Needs
) -> Mapping[str, Any]:
    """The other stack's outputs. Raises pulumi.RunError if they are missing, or if this stack cannot join its cluster."""
    proxies = (other["ranges"] or {}).get("proxies")
    for wrong, allowed, why, write in (
        (
            not other["clusterIdentity"],
            "a stack of this project that is up and has a cluster",
            f"stack {stack} has no output `clusterIdentity`: it is not up yet, or makes no cluster",
            f"pulumi up --stack {stack}, then update this stack",
        ),
        (
            other["project"] != project,
            f"gcp:project {other['project']}, where the cluster of {stack} is",
            f"this stack has {project}; pods cannot use another project's secrets and reservations",
            f"gcp:project: {other['project']}",
        ),
        (
            other["region"] != region,
            f"gcp:region {other['region']}, where the cluster of {stack} is",
            f"this stack has {region}; its pods would request zones outside the cluster's region",
            f"gcp:region: {other['region']}, and zones of that region",
        ),
        (
            other["namespace"] == namespace,
            "a separate namespace for each stack on a cluster",
            f"{stack} uses {namespace}; destroying this stack would delete that namespace and everything in it",
            f"vllm-fleet:namespace: {namespace}-2, or another name",
        ),
        (
            needs.proxy_only_subnet and not proxies,
            "a stack whose network has a proxy-only subnet",
            f"{stack} has none; this stack's Gateway would stay at PROGRAMMED False without a reason",
            f"vllm-fleet:network: {{proxyOnly: {{enabled: true}}}} in {stack}, then pulumi up there first",
        ),
        (
            needs.keda and not other["keda"],
            "a stack that installs KEDA on its cluster",
            f"{stack} does not install it; this stack's ScaledObject would have no controller",
            f"vllm-fleet:cluster: {{keda: true}} in {stack}, then pulumi up there first",
        ),
        (
            needs.keda_reads_metrics and not other["kedaReadsMetrics"],
            "a stack that installs KEDA for the stacks on its cluster",
            f"the KEDA of {stack} may not read Cloud Monitoring; this stack's servers would not scale by load",
            f"vllm-fleet:cluster: {{keda: true}} in {stack}, then pulumi up there first",
        ),
    ):
        if wrong:
            key = "vllm-fleet:platform.stack"
            problem = Finding(id="platform-stack", subject=key, found=stack, allowed=allowed, why=why, write=write)
            raise pulumi.RunError(problem.text())
    return other
