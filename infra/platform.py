"""Where the cluster comes from: everything made here, another stack's joined, or one that somebody else made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from infra.budget import Budget, BudgetArgs
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.naming import Place
from infra.network import Network, NetworkArgs
from infra.platform_outputs import KEDA, KEYS, PlatformOutputs
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from settings.kubeconfig import read_kubeconfig
from settings.problems import Problem, SettingsError
from settings.sections.budget import Budget as BudgetSection
from settings.sections.cluster import Cluster as ClusterSection
from settings.sections.network import Network as NetworkSection
from settings.sections.registry import Registry
from settings.sections.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlatformArgs:
    """Arguments of `OwnPlatform`."""

    place: Place
    """Project and region; prefix of the names and labels of everything made."""
    namespace: str
    """Kubernetes namespace that this stack uses on the cluster; a stack that joins must not share it."""
    apis: Sequence[str]
    """APIs that are needed, see `ServicesArgs.apis`; with `cloudresourcemanager.googleapis.com`, which knows the project's number."""
    network: NetworkSection = field(default_factory=NetworkSection)
    """The VPC's ranges and NAT."""
    proxy_only_subnet: bool = False
    """Whether the proxy-only subnet is made, as a Gateway needs it."""
    cluster: ClusterSection = field(default_factory=ClusterSection)
    """The Autopilot cluster."""
    quick_autoscaling: bool = False
    """Whether GKE's own autoscaler scales the servers, see `ClusterArgs`."""
    results: Results = field(default_factory=Results)
    """The bucket for benchmark results."""
    registry: Registry | None = None
    """A Docker Hub account for image pulls; None: anonymous."""
    budget: BudgetSection | None = None
    """A billing budget; None: none."""
    keda: str | None = None
    """Version of KEDA where it is installed on the cluster."""


class OwnPlatform(pulumi.ComponentResource):
    """Network, image repository, node account, results bucket, cluster and budget of a stack that has a cluster of its own."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """The one provider of everything on the cluster."""
    services: Services
    """The APIs that are needed."""

    def __init__(self, name: str, args: OwnPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:OwnPlatform", name, None, opts)
        place = args.place
        apis = ServicesArgs(project=place.project, apis=args.apis)
        self.services = Services(f"{name}-services", apis, pulumi.ResourceOptions(parent=self))
        enabled = pulumi.ResourceOptions(parent=self, depends_on=[self.services])
        results = ResultsBucket(f"{name}-results", ResultsBucketArgs(place=place, results=args.results), enabled)
        # Everything comes after the bucket, so that on destroy everything goes before it: should results be left in
        # it, destroy stops there, when nothing that costs money is left.
        prepared = pulumi.ResourceOptions(parent=self, depends_on=[self.services, results])
        ranges = NetworkArgs(place=place, network=args.network, proxy_only=args.proxy_only_subnet)
        network = Network(f"{name}-network", ranges, prepared)
        number = self.services.project_number()
        pulls = ImageRegistryArgs(place=place, account=args.registry, project_number=number)
        images = ImageRegistry(f"{name}-images", pulls, prepared)
        nodes = NodeIdentity(f"{name}-nodes", NodeIdentityArgs(place=place, images=images), prepared)
        autopilot = ClusterArgs(
            network=network, nodes=nodes, cluster=args.cluster, quick_autoscaling=args.quick_autoscaling
        )
        cluster = Cluster(f"{name}-cluster", autopilot, prepared)
        if args.budget is not None:
            Budget(f"{name}-budget", BudgetArgs(place=place, project_number=number, budget=args.budget), prepared)
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=cluster.kubeconfig,
            cluster_identifier=cluster.identity,
            # Every object on the cluster depends on its provider, so this puts the whole network, the proxy-only subnet
            # with it, behind the last Gateway on destroy: load balancers hold that subnet and would block it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster, network]),
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
            network=network.vpc.self_link,
            proxy_only_subnet=network.proxy_only_self_link,
            node_range=pulumi.Output.from_input(network.ranges.node_cidr),
            pod_range=pulumi.Output.from_input(network.ranges.pod_cidr),
            service_range=pulumi.Output.from_input(network.ranges.service_cidr),
            proxy_only_range=pulumi.Output.from_input(
                "" if network.proxy_only is None else network.ranges.proxy_only.cidr
            ),
            keda=None if args.keda is None else pulumi.Output.from_input(args.keda),
            kubeconfig=cluster.kubeconfig,
        )
        self.register_outputs(self.outputs.export())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlatformArgs:
    """Arguments of `SharedPlatform`: the stack to join, and what the one that joins needs of it."""

    stack: str
    """Name of the stack that has the cluster, in this program's own project and organization, or `organization/project/stack`."""
    place: Place
    """Project and region, which must be the cluster's. Nothing is named or labelled here."""
    namespace: str
    """Kubernetes namespace of the stack that joins; must not be the other stack's own."""
    proxy_only_subnet: bool = False
    """Whether a proxy-only subnet is needed, as a Gateway does."""
    keda: bool = False
    """Whether KEDA is needed, as a ScaledObject does."""
    apis: Sequence[str] = ()
    """APIs that are needed beyond the other stack's; they are switched on here, see `ServicesArgs.apis`."""


class SharedPlatform(pulumi.ComponentResource):
    """Another stack's cluster. Nothing of it is changed or owned here; the APIs that only this stack needs are made."""

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """The one provider of everything this stack adds to the cluster."""
    services: Services
    """The APIs that this stack needs beyond the other one's."""

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
    """Arguments of `GivenPlatform`. Raises pulumi.RunError for a kubeconfig of another place, or one with credentials in it."""

    kubeconfig: Path
    """The file, as `gcloud container clusters get-credentials` writes it: it names one cluster and carries no credentials."""
    place: Place
    """Project and region, which must be the cluster's. Nothing is named or labelled here."""
    namespace: str
    """Kubernetes namespace of the stack."""
    image_prefix: str | None = None
    """What stands before a Docker Hub image's name, e.g. "europe-west4-docker.pkg.dev/PROJECT/docker-hub". None: Docker Hub itself."""
    results_bucket: str | None = None
    """Bucket for benchmark results; None where no benchmark writes any."""
    apis: Sequence[str] = ()
    """APIs that are needed, with `cloudresourcemanager.googleapis.com`, which knows the project's number."""


class GivenPlatform(pulumi.ComponentResource):
    """A GKE Autopilot cluster that somebody else made. Nothing of it is changed or owned here; the APIs needed are switched on.

    Its ranges are not known: network policies then let in what they would else let in from the VPC's alone.
    """

    outputs: PlatformOutputs
    kubernetes: k8s.Provider
    """The one provider of everything this stack adds to the cluster."""
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
    """Text of the kubeconfig; name and address of the cluster that it names. Raises pulumi.RunError."""
    place = args.place
    try:
        return read_kubeconfig(args.kubeconfig, stack="", project=place.project, region=place.region)
    except SettingsError as error:
        raise pulumi.RunError(error.problems[0].text()) from None


def _full_name(stack: str) -> str:
    """The stack's name as every backend takes it: Pulumi Cloud refuses a reference that is not `organization/project/stack`."""
    return stack if "/" in stack else f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"


def _joined(reference: pulumi.StackReference, args: SharedPlatformArgs) -> PlatformOutputs:
    """The outputs of the stack to join, refused where they are missing or where `args` cannot live on them."""
    accepted = reference.get_output("platform").apply(lambda given: accept(given, args))
    # After `accepted`, so that a stack that is not up yet is refused with one message, always the same.
    both = pulumi.Output.all(accepted, reference.get_output("kubeconfig"))
    kubeconfig = both.apply(lambda given: _kubeconfig(args.stack, given[1]))

    def field(key: str) -> pulumi.Output[str]:
        return accepted.apply(lambda values: values[key])

    return PlatformOutputs(
        kubeconfig=pulumi.Output.secret(kubeconfig), **{attribute: field(key) for key, attribute in KEYS.items()}
    )


def accept(given: object, args: SharedPlatformArgs) -> Mapping[str, str]:
    """The other stack's `platform` output, if this stack can join it. Raises pulumi.RunError with what to do."""
    stack = args.stack
    if not isinstance(given, Mapping):
        raise _refusal(
            stack,
            allowed="a stack of this project that is up and has a cluster",
            why=f"stack {stack} has no output `platform`: it has not been brought up yet, or it is another program's",
            write=f"pulumi up --stack {stack}, then this stack again",
        )
    missing = sorted(key for key in KEYS if not isinstance(given.get(key), str))
    if missing:
        raise _refusal(
            stack,
            allowed=f"a stack whose output `platform` has {', '.join(KEYS)}",
            why=f"stack {stack} lacks {', '.join(missing)}: an older version of this program brought it up",
            write=f"pulumi up --stack {stack}, then this stack again",
        )
    if given["project"] != args.place.project:
        raise _refusal(
            stack,
            allowed=f"gcp:project {given['project']}, where the cluster of {stack} is",
            why=f"this stack says {args.place.project}; secrets and reservations of one project do not serve the other's pods",
            write=f"gcp:project: {given['project']}",
        )
    if given["region"] != args.place.region:
        raise _refusal(
            stack,
            allowed=f"gcp:region {given['region']}, where the cluster of {stack} is",
            why=f"this stack says {args.place.region}; its pods would ask for zones that the cluster has no nodes in",
            write=f"gcp:region: {given['region']}, and zones of that region",
        )
    if given["namespace"] == args.namespace:
        raise _refusal(
            stack,
            allowed="a namespace of its own for each stack on a cluster",
            why=f"{stack} uses {args.namespace} itself; destroying this stack would delete that namespace "
            "with everything in it",
            write=f"vllm-fleet:namespace: {args.namespace}-2, or a name that says what this stack serves",
        )
    if args.proxy_only_subnet and not given["proxyOnlySubnet"]:
        raise _refusal(
            stack,
            allowed="a stack whose network has a proxy-only subnet",
            why=f"{stack} has none, and the Gateway of this stack would stay unprogrammed without a message",
            write=f"vllm-fleet:network: {{proxyOnly: {{enabled: true}}}} in {stack}, and pulumi up there first",
        )
    if args.keda and not given.get(KEDA):
        raise _refusal(
            stack,
            allowed="a stack that installs KEDA on its cluster",
            why=f"{stack} installs none, and nobody would act on the ScaledObject of this stack",
            write=f"vllm-fleet:cluster: {{keda: true}} in {stack}, and pulumi up there first",
        )
    return {key: str(given[key]) for key in KEYS}


def _kubeconfig(stack: str, given: object) -> str:
    if not isinstance(given, str):
        raise pulumi.RunError(f"stack {stack} has no output `kubeconfig`: run `pulumi up --stack {stack}` first")
    return given


def _refusal(stack: str, *, allowed: str, why: str, write: str) -> pulumi.RunError:
    problem = Problem(
        id="platform-stack",
        path="vllm-fleet:platform.stack",
        value=stack,
        allowed=allowed,
        why=why,
        write=write,
    )
    return pulumi.RunError(problem.text())
