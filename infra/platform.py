"""Where the cluster comes from: everything made here, or another stack's joined."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
from pulumi_gcp import organizations

from infra.budget import Budget, BudgetArgs
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.network import Network, NetworkArgs
from infra.platform_outputs import PlatformOutputs
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlatformArgs:
    """Arguments of `OwnPlatform`."""

    settings: Settings
    """The stack."""


class OwnPlatform(pulumi.ComponentResource):
    """APIs, bucket, network, image repository, node account, cluster and budget, in the order that they need."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """The one provider of everything on the cluster."""
    services: Services
    """The APIs; whatever else calls Google Cloud depends on them."""

    def __init__(self, name: str, args: OwnPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:OwnPlatform", name, None, opts)
        settings = args.settings
        child = pulumi.ResourceOptions(parent=self)
        self.services = Services(f"{name}-services", ServicesArgs(settings=settings), child)
        results = ResultsBucket(f"{name}-results", ResultsBucketArgs(settings=settings), _after(self, self.services))
        # Everything comes after the bucket, so that on destroy everything goes before it: should results be left in
        # it, destroy stops there, when nothing that costs money is left.
        prepared = _after(self, self.services, results)
        network = Network(f"{name}-network", NetworkArgs(settings=settings), prepared)
        registry = ImageRegistry(f"{name}-images", ImageRegistryArgs(settings=settings), prepared)
        nodes = NodeIdentity(
            f"{name}-nodes", NodeIdentityArgs(settings=settings, repository=registry.repository), prepared
        )
        cluster = Cluster(f"{name}-cluster", ClusterArgs(settings=settings, network=network, nodes=nodes), prepared)
        number = _project_number(self, settings, self.services)
        if settings.budget is not None:
            Budget(
                f"{name}-budget",
                BudgetArgs(settings=settings, budget=settings.budget, project_number=number),
                prepared,
            )
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=cluster.kubeconfig,
            # Every object on the cluster depends on its provider, so this puts the whole network, the proxy-only subnet
            # with it, behind the last Gateway on destroy: load balancers hold that subnet and would block it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster, network]),
        )
        self.outputs = PlatformOutputs(
            cluster_name=cluster.cluster.name,
            project=pulumi.Output.from_input(settings.project),
            project_number=number,
            region=pulumi.Output.from_input(settings.region),
            namespace=pulumi.Output.from_input(settings.namespace),
            workload_pool=cluster.workload_pool,
            image_prefix=registry.image_prefix,
            results_bucket=results.bucket.name,
            network=network.vpc.self_link,
            proxy_only_subnet=network.proxy_only_self_link,
            kubeconfig=cluster.kubeconfig,
        )
        self.register_outputs(self.outputs.export())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlatformArgs:
    """Arguments of `SharedPlatform`."""

    settings: Settings
    """The stack that joins."""
    stack: str
    """`organization/project/stack` of the stack that has the cluster."""


class SharedPlatform(pulumi.ComponentResource):
    """Another stack's cluster. Nothing of it is changed or owned here; what only this stack needs (APIs, a budget) is made."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """The one provider of everything this stack adds to the cluster."""
    services: Services
    """The APIs that this stack needs beyond the other one's."""

    def __init__(self, name: str, args: SharedPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:SharedPlatform", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.services = Services(f"{name}-services", ServicesArgs(settings=args.settings), child)
        reference = pulumi.StackReference(f"{name}-stack", stack_name=args.stack, opts=child)
        self.outputs = PlatformOutputs.from_reference(reference, args.stack, args.settings)
        if args.settings.budget is not None:
            Budget(
                f"{name}-budget",
                BudgetArgs(
                    settings=args.settings, budget=args.settings.budget, project_number=self.outputs.project_number
                ),
                _after(self, self.services),
            )
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes", kubeconfig=self.outputs.kubeconfig, opts=_after(self, self.services)
        )
        self.register_outputs(self.outputs.export())


def _after(parent: pulumi.Resource, *first: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent, depends_on=list(first))


def _project_number(parent: pulumi.Resource, settings: Settings, services: Services) -> pulumi.Output[str]:
    """The project's number, asked only once the API that knows it is on: a first `pulumi up` would fail otherwise."""
    project = organizations.get_project_output(
        project_id=settings.project,
        opts=pulumi.InvokeOutputOptions(parent=parent, depends_on=list(services.enabled)),
    )
    return project.number
