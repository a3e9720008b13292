"""Everything that one stack runs on its cluster, in the order in which it must start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pulumi

from facts.signals.model import Catalogue
from settings.derived.router import RouterNeeds
from settings.derived.scaling import ScalingPolicy
from settings.derived.traffic import Traffic, VpcRanges
from settings.sections.capacity import AnyMode, Ladder, ladder_class
from settings.sections.gateway import Gateway as GatewaySection
from settings.sections.model import Model
from settings.sections.monitoring import Monitoring as MonitoringSection
from settings.sections.secret_stores import SecretManagerSecret
from settings.sections.spending import Spending
from settings.sections.weights import Weights as VolumeSection
from settings.server_arguments import ServerArguments
from workloads.benchmark.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway.gateway import CanaryBackend, Gateway, GatewayArgs, ServiceBackend
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.names import ROUTER_APP
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server.compile_cache import KeptCache
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs, WeightsMount

if TYPE_CHECKING:
    from settings.derived.measurement import Measurement
    from settings.derived.spending import Rates
    from workloads.router.router import Router


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStackArgs:
    """Arguments of `ServingStack`."""

    namespace: str
    """Kubernetes namespace to create; also the prefix of cluster-wide names."""
    labels: Mapping[str, str]
    """Labels of every object."""
    image_prefix: pulumi.Input[str]
    """What precedes a Docker Hub image's name: `PlatformOutputs.image_prefix`."""
    project: str
    """Google Cloud project whose Cloud Monitoring stores the servers' series."""
    traffic: Traffic
    """Workloads and their allowed connections."""
    ranges: pulumi.Input[VpcRanges] | None = None
    """VPC ranges from another stack; override those of `traffic`."""
    gpus: int | None
    """GPU quota of the namespace. None: no quota."""
    capacity: AnyMode
    """Provisioning mode of the servers' nodes; a ladder creates its ComputeClass."""
    long_notice: bool = False
    """Whether the cluster has GKE 1.35.0-gke.1171000 or later, for the notice of a ladder's Spot nodes."""
    returns: bool = False
    """Whether a ladder's replicas return to an earlier rung; for two replicas or more."""
    zones: tuple[str, ...]
    """Zones of the servers' nodes, all of one region."""
    volume: VolumeSection = field(default_factory=VolumeSection)
    """Source and size of the weights volume."""
    disk_labels: Mapping[str, str] = field(default_factory=dict)
    """Google Cloud labels of the weights' disks."""
    hf_token: pulumi.Output[str] | SecretManagerSecret | None = None
    """Hugging Face token for a gated model."""
    server: ServerArguments
    """The servers: `server_arguments` of a stack."""
    api_key: pulumi.Output[str] | SecretManagerSecret | None = None
    """API key required on /v1. None: no key."""
    compile_caches: Mapping[str, KeptCache] = field(default_factory=dict)
    """Compile caches by service account of the pods that share one. Empty: each pod compiles."""
    canary: ServerArguments | None = None
    """The canary's servers. None: no canary."""
    canary_pool: str | None = None
    """InferencePool of a canary behind the gateway. None: an offline trial, without users."""
    canary_weight: int = 0
    """Percent of the users' requests for `canary_pool`."""
    canary_weights: str | None = None
    """Ending of the names of the canary's weights. None: it mounts the servers'."""
    scaling: ScalingPolicy | None = None
    """Autoscaling of the servers, whose `replicas` is then None."""
    keda: bool = False
    """Whether to install KEDA on the cluster."""
    gateway: GatewaySection | None = None
    """The Inference Gateway. None: clients call the Service."""
    gateway_address: pulumi.Input[str] | None = None
    """Name of the gateway's static address, see `GatewayArgs`."""
    gateway_certificate: pulumi.Input[str] | None = None
    """Name of the certificate for the gateway's host name, see `GatewayArgs`."""
    picks: bool = True
    """Whether the gateway's endpoint picker chooses a server. False: the gateway sends requests to the routers, else to the servers'
    Service."""
    router: RouterNeeds | None = None
    """The routers between clients and servers. None: no router."""
    measurement: Measurement | None = None
    """The benchmark. None: no benchmark."""
    run_on_update: bool = True
    """Whether `pulumi up` runs the benchmark, see `BenchmarkArgs`."""
    results_bucket: pulumi.Input[str] = ""
    """Bucket for the benchmark's results."""
    monitoring: MonitoringSection | None = None
    """Scraping and recording rules. None: no monitoring."""
    signals: Catalogue | None = None
    """Signals of the recording rules."""
    spending: Spending | None = None
    """Limit of the spending guard. None: no guard."""
    rates: Rates | None = None
    """Prices for the spending guard; required with `spending`."""


_Component = TypeVar("_Component", bound=pulumi.Resource)


class ServingStack:
    """Namespace, weights and servers of one model, and what limits, scales, tries, exposes, measures and watches them.

    Not a component resource: its components keep the parent of `opts`. `opts` has the cluster's Kubernetes provider, and depends on
    what pods need outside the cluster, such as permissions.
    """

    components: list[pulumi.Resource]
    """Every component, for `DeletionProtection`."""
    namespace: Namespace
    server: Server
    gateway: Gateway | None
    """The gateway, if any."""
    endpoint: pulumi.Output[str]
    """URL of the gateway, else of the routers' Service, else of the servers' Service, without a path."""

    def __init__(self, args: ServingStackArgs, opts: pulumi.ResourceOptions) -> None:
        self._args, self._opts, self.components = args, opts, []
        quota = NamespaceArgs(
            name=args.namespace, traffic=args.traffic, ranges=args.ranges, gpus=args.gpus, labels=args.labels
        )
        self.namespace = self._add(Namespace("namespace", quota, self._after()))
        self._space = Space(namespace=self.namespace.name, labels=args.labels, image_prefix=args.image_prefix)
        # Pods start only after their service account, quota and network policies exist.
        self._guarded = self._after(self.namespace)
        weights = self._weights()
        self._spending_guard()
        nodes = self._ladder(weights)
        self.server = self._server("server", args.server, weights, weights.mount, nodes)
        first_pods = self._autoscaling()
        router = self._router()
        canary = self._canary(weights, nodes)
        self.gateway = self._gateway(canary, router)
        self.endpoint = (self.gateway or router or self.server).endpoint
        self._benchmark()
        self._monitoring(canary, first_pods)

    def _add(self, component: _Component) -> _Component:
        self.components.append(component)
        return component

    def _after(self, *needed: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(self._opts, pulumi.ResourceOptions(depends_on=list(needed)))

    def _weights(self) -> Weights:
        return self._add(Weights("weights", self._release(self._args.server["model"]), self._guarded))

    def _release(self, model: Model) -> WeightsArgs:
        args = self._args
        return WeightsArgs(
            space=self._space,
            model=model,
            zones=args.zones,
            volume=args.volume,
            class_prefix=args.namespace,
            hf_token=args.hf_token,
            disk_labels=args.disk_labels,
        )

    def _spending_guard(self) -> None:
        """Does not depend on the servers: a renewed limit must reach the guard while the update waits for paused servers."""
        args = self._args
        if args.spending is None or args.rates is None:
            return
        from workloads.spending.spending import SpendingGuard, SpendingGuardArgs

        limit = SpendingGuardArgs(
            name=args.namespace,
            space=self._space,
            traffic=args.traffic,
            ranges=args.ranges,
            spending=args.spending,
            rates=args.rates,
            grace_seconds=args.server["placement"].grace_seconds,
            idle_seconds=args.server["placement"].idle_seconds,
        )
        self._add(SpendingGuard("spending", limit, self._guarded))

    def _ladder(self, weights: Weights) -> tuple[pulumi.Resource, ...]:
        """What the servers' nodes need. After the weights: GKE may install ComputeClass long after the cluster."""
        args = self._args
        if not isinstance(args.capacity, Ladder):
            return ()
        machine = args.server["placement"].machine
        rungs = CapacityLadderArgs(
            class_name=ladder_class(args.namespace, machine),
            ladder=args.capacity,
            zones=args.zones,
            machine=machine,
            long_notice=args.long_notice,
            returns=args.returns,
            idle_seconds=args.server["placement"].idle_seconds,
            labels=args.labels,
        )
        return (self._add(CapacityLadder("ladder", rungs, self._after(weights))),)

    def _server(
        self,
        what: str,
        server: ServerArguments,
        weights: Weights,
        mount: WeightsMount | None,
        nodes: Sequence[pulumi.Resource],
        beside: Server | None = None,
    ) -> Server:
        told = ServerArgs(
            **server,
            space=self._space,
            weights=mount,
            hf_token=weights.token,
            hf_token_version=weights.token_version,
            api_key=self._args.api_key,
            compile_cache=self._args.compile_caches.get(server["service_account"]),
            beside=beside,
        )
        return self._add(Server(what, told, self._after(self.namespace, *nodes)))

    def _autoscaling(self) -> Sequence[pulumi.Resource]:
        """Returns what has a node where no server does."""
        args, scalers = self._args, list[pulumi.Resource]()
        if args.keda:
            from workloads.keda.keda import Keda, KedaArgs

            keda = KedaArgs(ranges=args.traffic.ranges, labels=args.labels)
            scalers.append(self._add(Keda("keda", keda, self._after())))
        if args.scaling is not None:
            from workloads.autoscaling import Autoscaling, AutoscalingArgs

            scaled = AutoscalingArgs(space=self._space, server=self.server, policy=args.scaling, project=args.project)
            self._add(Autoscaling("autoscaling", scaled, self._after(self.namespace, *scalers)))
        return scalers if args.server["starts_empty"] else ()

    def _canary(self, weights: Weights, nodes: Sequence[pulumi.Resource]) -> Server | None:
        """Separate resources: adding or removing them changes nothing of the servers."""
        canary, ending, mount = self._args.canary, self._args.canary_weights, weights.mount
        if canary is None:
            return None
        if ending is not None:
            volume = self._args.volume.model_copy(update={"name_ending": ending})
            release = replace(self._release(canary["model"]), volume=volume, beside=weights)
            mount = self._add(Weights("weights-canary", release, self._guarded)).mount
        return self._server("server-canary", canary, weights, mount, nodes, beside=self.server)

    def _router(self) -> Router | None:
        needs = self._args.router
        if needs is None:
            return None
        from workloads.router.router import Router, RouterArgs

        routers = RouterArgs(space=self._space, server=self.server, **needs)
        return self._add(Router("router", routers, self._guarded))

    def _gateway(self, canary: Server | None, router: Router | None) -> Gateway | None:
        args, share = self._args, None
        if args.gateway is None:
            return None
        if canary is not None and args.canary_pool is not None:
            share = CanaryBackend(server=canary, pool=args.canary_pool, weight=args.canary_weight)
        service = None
        if router is not None:
            service = ServiceBackend(name=ROUTER_APP, drain_seconds=router.drain_seconds)
        elif not args.picks:
            service = ServiceBackend(name=self.server.name, drain_seconds=self.server.drain.grace_seconds)
        told = GatewayArgs(
            space=self._space,
            server=self.server,
            canary=share,
            service=service,
            gateway=args.gateway,
            address=args.gateway_address,
            certificate=args.gateway_certificate,
        )
        # A route to routers that do not run yet would answer 503.
        after = self._guarded if router is None else self._after(self.namespace, router)
        return self._add(Gateway("gateway", told, after))

    def _benchmark(self) -> None:
        args = self._args
        if args.measurement is None:
            return
        clients = BenchmarkArgs(
            space=self._space,
            server=self.server,
            endpoint=self.endpoint,
            results_bucket=args.results_bucket,
            measurement=args.measurement,
            run_on_update=args.run_on_update,
        )
        self._add(Benchmark("benchmark", clients, self._guarded))

    def _monitoring(self, canary: Server | None, first_pods: Sequence[pulumi.Resource]) -> None:
        args = self._args
        if args.monitoring is None:
            return
        scrapes = MonitoringArgs(
            space=self._space,
            server=self.server,
            also=() if canary is None else (canary,),
            gateway=self.gateway,
            router=args.router is not None,
            signals=args.signals,
            monitoring=args.monitoring,
        )
        self._add(Monitoring("monitoring", scrapes, self._after(self.namespace, *first_pods)))
