"""The source of the cluster: this stack, another stack, or an existing cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from facts.finding import Finding
from facts.names import EPP_EXT_PROC_PORT, HTTP_PORT
from infra.batch_bucket import BatchBucket, BatchBucketArgs
from infra.budget import Budget, BudgetArgs
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.naming import Place
from infra.network import (
    ExistingNetwork,
    Network,
    NetworkArgs,
    ProxyOnlySubnet,
    ProxyOnlySubnetArgs,
    subnet_link,
)
from infra.platform_outputs import KEDA, KEYS, PlatformOutputs
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from settings.kubeconfig import read_kubeconfig
from settings.problems import SettingsError
from settings.sections.budget import Budget as BudgetSection
from settings.sections.cluster import Cluster as ClusterSection
from settings.sections.network import Network as NetworkSection
from settings.sections.registry import Registry
from settings.sections.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlatformArgs:
    """Arguments of `OwnPlatform`."""

    place: Place
    """Project, region, name prefix and labels of every resource."""
    namespace: str
    """Kubernetes namespace of this stack; stacks that join the cluster must use another."""
    apis: Sequence[str]
    """Required APIs, see `ServicesArgs.apis`, including `cloudresourcemanager.googleapis.com`, which returns the project number."""
    network: NetworkSection = field(default_factory=NetworkSection)
    """Ranges and NAT settings of the VPC, or the names of an existing one."""
    proxy_only_subnet: bool = False
    """Whether to create the proxy-only subnet, required by a Gateway. Not with `network.existing.proxy_only_subnet`."""
    server_ports: Sequence[int] = (HTTP_PORT,)
    """TCP ports of the servers' pods that the proxies of `proxy_only_subnet` may reach."""
    cluster: ClusterSection = field(default_factory=ClusterSection)
    """Settings of the Autopilot cluster."""
    results: Results = field(default_factory=Results)
    """Settings of the results bucket."""
    batch_retention_days: int | None = None
    """Days after which documents and results of batches are deleted. None: no bucket for batches."""
    registry: Registry | None = None
    """Docker Hub account for image pulls. None: anonymous."""
    budget: BudgetSection | None = None
    """Billing budget. None: no budget."""
    keda: str | None = None
    """KEDA version installed on the cluster. None: not installed."""


class OwnPlatform(pulumi.ComponentResource):
    """A stack's own platform: APIs, buckets, network, image repository, node account, cluster, budget, Kubernetes provider."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """Kubernetes provider for every object on the cluster."""
    services: Services
    """The enabled APIs."""
    nodes_link: pulumi.Output[str]
    """Self link of the node subnet."""
    batch_bucket: pulumi.Output[str] | None
    """Bucket for batches; None without one."""

    def __init__(self, name: str, args: OwnPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:OwnPlatform", name, None, opts)
        place = args.place
        apis = ServicesArgs(project=place.project, apis=args.apis)
        self.services = Services(f"{name}-services", apis, pulumi.ResourceOptions(parent=self))
        enabled = pulumi.ResourceOptions(parent=self, depends_on=[self.services])
        results = ResultsBucket(f"{name}-results", ResultsBucketArgs(place=place, results=args.results), enabled)
        kept: list[pulumi.Resource] = [results]
        self.batch_bucket = None
        if args.batch_retention_days is not None:
            documents = BatchBucketArgs(place=place, retention_days=args.batch_retention_days)
            batches = BatchBucket(f"{name}-batches", documents, enabled)
            self.batch_bucket = batches.bucket_name
            kept.append(batches)
        # Everything depends on the buckets, so destroy deletes them last: if results remain in one, destroy stops there,
        # after everything that costs money is gone.
        prepared = pulumi.ResourceOptions(parent=self, depends_on=[self.services, *kept])
        network: Network | ExistingNetwork
        if args.network.existing is None:
            network = Network(f"{name}-network", NetworkArgs(place=place, network=args.network), prepared)
            in_network = pulumi.ResourceOptions(parent=network)
        else:
            network, in_network = ExistingNetwork(place=place, network=args.network), prepared
        proxies: ProxyOnlySubnet | None = None
        if args.proxy_only_subnet:
            balancer = ProxyOnlySubnetArgs(
                network=network,
                cidr=args.network.proxy_only.cidr,
                proxied_ports=(*args.server_ports, EPP_EXT_PROC_PORT),
            )
            proxies = ProxyOnlySubnet(f"{name}-network", balancer, in_network)
        self.nodes_link = pulumi.Output.from_input(network.nodes_link)
        number = self.services.project_number()
        pulls = ImageRegistryArgs(place=place, account=args.registry, project_number=number)
        images = ImageRegistry(f"{name}-images", pulls, prepared)
        nodes = NodeIdentity(f"{name}-nodes", NodeIdentityArgs(place=place, images=images), prepared)
        autopilot = ClusterArgs(network=network, nodes=nodes, cluster=args.cluster)
        cluster = Cluster(f"{name}-cluster", autopilot, prepared)
        if args.budget is not None:
            Budget(f"{name}-budget", BudgetArgs(place=place, project_number=number, budget=args.budget), prepared)
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=cluster.kubeconfig,
            cluster_identifier=cluster.identity,
            # Every object on the cluster depends on its provider. On destroy the network, including the proxy-only
            # subnet, therefore goes after the last Gateway; a load balancer in that subnet would block its deletion.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster, *_made(network, proxies)]),
        )
        self.outputs = PlatformOutputs(
            cluster_name=cluster.cluster.name,
            cluster_identity=cluster.identity,
            project=pulumi.Output.from_input(place.project),
            project_number=number,
            region=pulumi.Output.from_input(place.region),
            namespace=pulumi.Output.from_input(args.namespace),
            workload_pool=cluster.workload_pool,
            image_prefix=images.image_prefix,
            results_bucket=results.bucket.name,
            network=pulumi.Output.from_input(network.vpc_link),
            proxy_only_subnet=_proxy_only_link(network, proxies),
            node_range=pulumi.Output.from_input(network.ranges.node_cidr),
            pod_range=pulumi.Output.from_input(network.ranges.pod_cidr),
            service_range=pulumi.Output.from_input(network.ranges.service_cidr),
            proxy_only_range=pulumi.Output.from_input(
                args.network.proxy_only.cidr if proxies is not None or args.network.has_proxy_only_subnet else ""
            ),
            keda=None if args.keda is None else pulumi.Output.from_input(args.keda),
            kubeconfig=cluster.kubeconfig,
        )
        self.register_outputs(self.outputs.export())


def _made(network: Network | ExistingNetwork, proxies: ProxyOnlySubnet | None) -> list[pulumi.Resource]:
    """What of the network this stack creates."""
    if isinstance(network, Network):
        return [network]
    return [] if proxies is None else [proxies.subnet, proxies.firewall]


def _proxy_only_link(network: Network | ExistingNetwork, proxies: ProxyOnlySubnet | None) -> pulumi.Output[str]:
    """Self link of the proxy-only subnet, or empty."""
    if proxies is not None:
        return proxies.subnet.self_link
    existing = network.ranges.existing
    name = None if existing is None else existing.proxy_only_subnet
    return pulumi.Output.from_input(
        "" if name is None else subnet_link(network.vpc_project, network.place.region, name)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlatformArgs:
    """Arguments of `SharedPlatform`: the stack to join, and what this stack needs from it."""

    stack: str
    """Name of the stack that owns the cluster, in the same project and organization, or `organization/project/stack`."""
    place: Place
    """Project and region; must match the cluster's. Prefix and labels are not used."""
    namespace: str
    """Kubernetes namespace of this stack; must differ from the other stack's."""
    proxy_only_subnet: bool = False
    """Whether a proxy-only subnet is required, as for a Gateway."""
    keda: bool = False
    """Whether KEDA is required, as for a ScaledObject."""
    apis: Sequence[str] = ()
    """APIs to enable in addition to the other stack's, see `ServicesArgs.apis`."""


class SharedPlatform(pulumi.ComponentResource):
    """Another stack's cluster. This component changes nothing of it; it only enables further APIs."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """Kubernetes provider for this stack's objects."""
    services: Services
    """The additional APIs."""

    def __init__(self, name: str, args: SharedPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:SharedPlatform", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.services = Services(f"{name}-services", ServicesArgs(project=args.place.project, apis=args.apis), child)
        self.outputs = _joined(
            pulumi.StackReference(f"{name}-stack", stack_name=_full_name(args.stack), opts=child), args
        )
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.outputs.kubeconfig,
            cluster_identifier=self.outputs.cluster_identity,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.services]),
        )
        self.register_outputs(self.outputs.export())


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlatformArgs:
    """Arguments of `GivenPlatform`. Raises pulumi.RunError for a kubeconfig with credentials, or of another project or region."""

    kubeconfig: Path
    """Kubeconfig as written by `gcloud container clusters get-credentials`: one cluster, no credentials."""
    place: Place
    """Project and region; must match the cluster's. Prefix and labels are not used."""
    namespace: str
    """Kubernetes namespace of the stack."""
    image_prefix: str | None = None
    """Prefix of Docker Hub image names, e.g. "europe-west4-docker.pkg.dev/PROJECT/docker-hub". None: Docker Hub itself."""
    results_bucket: str | None = None
    """Bucket for benchmark results; None without a benchmark."""
    apis: Sequence[str] = ()
    """Required APIs, including `cloudresourcemanager.googleapis.com`, which returns the project number."""


class GivenPlatform(pulumi.ComponentResource):
    """An existing GKE Autopilot cluster. This component changes nothing of it; it only enables APIs.

    Its ranges are unknown, so network policies admit all private ranges instead of the VPC's.
    """

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """Kubernetes provider for this stack's objects."""
    services: Services

    def __init__(self, name: str, args: GivenPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:GivenPlatform", name, None, opts)
        text, cluster, server = of_kubeconfig(args)
        child = pulumi.ResourceOptions(parent=self)
        self.services = Services(f"{name}-services", ServicesArgs(project=args.place.project, apis=args.apis), child)
        told: dict[str, pulumi.Input[str]] = {
            "cluster_name": cluster,
            "cluster_identity": server,
            "project": args.place.project,
            "region": args.place.region,
            "namespace": args.namespace,
            "workload_pool": f"{args.place.project}.svc.id.goog",
            "image_prefix": args.image_prefix or "docker.io",
            "results_bucket": args.results_bucket or "",
            "kubeconfig": pulumi.Output.secret(text),
        }
        unknown = ("network", "proxy_only_subnet", "node_range", "pod_range", "service_range", "proxy_only_range")
        self.outputs = PlatformOutputs(
            project_number=self.services.project_number(),
            **{field: pulumi.Output.from_input(value) for field, value in (told | dict.fromkeys(unknown, "")).items()},
        )
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.outputs.kubeconfig,
            cluster_identifier=self.outputs.cluster_identity,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.services]),
        )
        self.register_outputs(self.outputs.export())


def of_kubeconfig(args: GivenPlatformArgs) -> tuple[str, str, str]:
    """The kubeconfig's text, cluster name and server address. Raises pulumi.RunError."""
    place = args.place
    try:
        return read_kubeconfig(args.kubeconfig, stack="", project=place.project, region=place.region)
    except SettingsError as error:
        raise pulumi.RunError(error.problems[0].text()) from None


def _full_name(stack: str) -> str:
    """The full stack name, `organization/project/stack`, which Pulumi Cloud requires in references."""
    return stack if "/" in stack else f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"


def _joined(reference: pulumi.StackReference, args: SharedPlatformArgs) -> PlatformOutputs:
    """Outputs of the stack to join. Raises pulumi.RunError if they are missing or incompatible with `args`."""
    accepted = reference.get_output("platform").apply(lambda given: accept(given, args))
    # After `accepted`, so that a stack that is not up gives one message.
    both = pulumi.Output.all(accepted, reference.get_output("kubeconfig"))
    kubeconfig = both.apply(lambda given: _kubeconfig(args.stack, given[1]))

    def field(key: str) -> pulumi.Output[str]:
        return accepted.apply(lambda values: values[key])

    return PlatformOutputs(
        kubeconfig=pulumi.Output.secret(kubeconfig), **{attribute: field(key) for key, attribute in KEYS.items()}
    )


def accept(given: object, args: SharedPlatformArgs) -> Mapping[str, str]:
    """The other stack's `platform` output. Raises pulumi.RunError if this stack cannot join it."""
    stack = args.stack
    if not isinstance(given, Mapping) or not KEYS.keys() <= given.keys():
        raise _refusal(
            stack,
            allowed="a stack of this project that is up and has a cluster",
            why=f"stack {stack} has no output `platform` of this program: it is not up yet, or it belongs to another one",
            write=f"pulumi up --stack {stack}, then update this stack",
        )
    if given["project"] != args.place.project:
        raise _refusal(
            stack,
            allowed=f"gcp:project {given['project']}, where the cluster of {stack} is",
            why=f"this stack has {args.place.project}; pods cannot use another project's secrets and reservations",
            write=f"gcp:project: {given['project']}",
        )
    if given["region"] != args.place.region:
        raise _refusal(
            stack,
            allowed=f"gcp:region {given['region']}, where the cluster of {stack} is",
            why=f"this stack has {args.place.region}; its pods would request zones outside the cluster's region",
            write=f"gcp:region: {given['region']}, and zones of that region",
        )
    if given["namespace"] == args.namespace:
        raise _refusal(
            stack,
            allowed="a separate namespace for each stack on a cluster",
            why=f"{stack} uses {args.namespace}; destroying this stack would delete that namespace "
            "and everything in it",
            write=f"vllm-fleet:namespace: {args.namespace}-2, or another name",
        )
    if args.proxy_only_subnet and not given["proxyOnlySubnet"]:
        raise _refusal(
            stack,
            allowed="a stack whose network has a proxy-only subnet",
            why=f"{stack} has none; this stack's Gateway would stay at PROGRAMMED False without a reason",
            write=f"vllm-fleet:network: {{proxyOnly: {{enabled: true}}}} in {stack}, then pulumi up there first",
        )
    if args.keda and not given.get(KEDA):
        raise _refusal(
            stack,
            allowed="a stack that installs KEDA on its cluster",
            why=f"{stack} does not install it; this stack's ScaledObject would have no controller",
            write=f"vllm-fleet:cluster: {{keda: true}} in {stack}, then pulumi up there first",
        )
    return {key: str(given[key]) for key in KEYS}


def _kubeconfig(stack: str, given: object) -> str:
    if not isinstance(given, str):
        raise pulumi.RunError(f"stack {stack} has no output `kubeconfig`: run `pulumi up --stack {stack}` first")
    return given


def _refusal(stack: str, *, allowed: str, why: str, write: str) -> pulumi.RunError:
    problem = Finding(
        id="platform-stack",
        subject="vllm-fleet:platform.stack",
        found=stack,
        allowed=allowed,
        why=why,
        write=write,
    )
    return pulumi.RunError(problem.text())
