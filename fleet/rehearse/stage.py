"""Everything a drill stands on, alive: the control plane, Google's part, the stack, and the instruments that watch them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zoneinfo import ZoneInfo

from fleet.preview.offline import OfflineStack, record_stack
from fleet.preview.record.recording import Recording
from fleet.rehearse.api import DEPLOYMENT, ClusterApi, Manifest
from fleet.rehearse.apply.applier import Applier
from fleet.rehearse.apply.manifests import is_object
from fleet.rehearse.apply.state import AppliedState, ApplyEvent, ApplyReport
from fleet.rehearse.apply.waiter import SLACK_SECONDS
from fleet.rehearse.autopilot.install import install as autopilot
from fleet.rehearse.clock import DEFAULT_SPEED, Clock
from fleet.rehearse.control_plane.cluster import ControlPlane
from fleet.rehearse.custom_resources.definitions import keda_definitions
from fleet.rehearse.custom_resources.install import install
from fleet.rehearse.giving_back import forget_scaling
from fleet.rehearse.meter import Meter
from fleet.rehearse.results import DrillBrokenOffError
from fleet.rehearse.simulation.chart import Charts
from fleet.rehearse.simulation.compile_caches import CompileCaches
from fleet.rehearse.simulation.disks import Disks
from fleet.rehearse.simulation.gateway import GatewayController
from fleet.rehearse.simulation.gateway_prerequisites import prerequisites_of
from fleet.rehearse.simulation.keda.in_flight import InFlight
from fleet.rehearse.simulation.keda.operator import A_MONDAY, Keda
from fleet.rehearse.simulation.keda.wall_time import sync_wall_seconds
from fleet.rehearse.simulation.kubelet_stages import kubelet_stages
from fleet.rehearse.simulation.managed_prometheus import ManagedPrometheus
from fleet.rehearse.simulation.provisioner import Provisioner
from fleet.rehearse.simulation.spending_guards import SpendingGuards
from fleet.rehearse.simulation.standby import Standby
from fleet.rehearse.simulation.stock import Stock
from fleet.rehearse.simulation.timings import Timings, timings_for
from fleet.rehearse.simulation.world import World, is_ready
from fleet.rehearse.simulation.writer import Writer
from fleet.rehearse.story import Story
from fleet.rehearse.timeline import Timeline
from fleet.rehearse.traffic.traffic import Traffic, load_of
from fleet.rehearse.variants import varied
from settings.derived.scaling import DAY_MINUTES, scaling_policy
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from fleet.rehearse.control_plane.build import Binaries
    from settings.stack import Settings

Progress = Callable[[str], None]
T = TypeVar("T")

LAG_SECONDS: Final = 45.0
"""Wall time that Kubernetes' own controllers may need on a busy machine, on top of whatever the clock says.
Assumed: the slowest seen on two cores was a third of it."""
POLL_SECONDS: Final = 0.05
EMPTY_WALL_SECONDS: Final = 4.0
"""A machine stands empty at least so long on the wall, however fast the clock: the scheduler must get a chance to use it."""
_NAMELESS: Final[Mapping[str, Any]] = {"namespace": "", "cluster": {"name": None}, "capacity": {"create": None}}
"""Every name that a stack file may write, left out: two files may not write the same."""
QUICK_SPEED: Final = 300.0
"""On a faster clock Pulumi's own limits are over before Kubernetes can do anything: waits get more wall time there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every stage of a rehearsal shares: the programs to run, and how fast time goes."""

    binaries: Binaries
    definitions: tuple[Manifest, ...]
    """CustomResourceDefinitions that GKE or its add-ons bring."""
    charts: Charts
    speed: float = DEFAULT_SPEED
    progress: Progress = field(default=lambda _: None)


class Stage:
    """One stack on one control plane. A context manager: entering starts everything, leaving ends everything."""

    api: ClusterApi
    world: World
    meter: Meter
    stock: Stock
    provisioner: Provisioner
    gateway: GatewayController
    writer: Writer
    caches: CompileCaches
    keda: Keda
    """Only where the stack scales by it."""
    guards: SpendingGuards
    applier: Applier
    timings: Timings
    control_plane: ControlPlane
    first_report: ApplyReport
    """Of the bring-up, however it ended; empty before."""
    began_seconds: float = 0.0
    """When `pulumi up` began; the clock has run since the control plane was started."""

    def __init__(self, opened: OfflineStack, around: Surroundings, *, speed: float | None = None) -> None:
        # A declared canary would be one more server in every count; its own drills bring one.
        declared = opened.settings.rollout.canary is not None
        self.opened = varied(opened, {"rollout": {"canary": None, "promoted": None}}) if declared else opened
        self.around = around
        self.clock = Clock(speed or around.speed)
        self.timeline = Timeline(self.clock)
        self.state: AppliedState | None = None
        self.first_report = ApplyReport(state=AppliedState(project=opened.file.project, stack=opened.file.stack))
        self.phase_seconds: dict[str, float] = {}
        """Wall seconds of each phase of the bring-up."""
        self._stack = contextlib.ExitStack()
        self._base: Recording | None = None
        self._done = self._total = 0

    @property
    def settings(self) -> Settings:
        """The stack's own settings."""
        return self.opened.settings

    @cached_property
    def traffic(self) -> Traffic:
        """A server on loopback for every Ready server pod, from when it is first asked for until the stage ends."""
        return self._stack.enter_context(
            Traffic(
                clock=self.clock,
                timeline=self.timeline,
                pods=self.world.pods,
                nodes=self.world.nodes,
                server=self.server,
                namespace=self.namespace,
                model=self.settings.serving.model.id,
                load=load_of(self.settings),
                ranks=self.settings.serving.engine.data_parallel_size,
            )
        )

    def machines_for(self, servers: int) -> int:
        """Machines that so many servers need: several share one where they take part of its GPUs."""
        return ceil(servers / self.servers_a_machine)

    @property
    def servers_a_machine(self) -> int:
        """Servers that have room on one machine."""
        return self.settings.machine.gpus // self.settings.gpus_per_replica

    @property
    def is_scattered(self) -> bool:
        """Whether servers that could share machines are on more of them than they need, as after a scale-down."""
        in_use = {pod["spec"]["nodeName"] for pod in self.ready_pods()}
        return len(in_use) > self.machines_for(self.servers)

    @property
    def servers(self) -> int:
        """Servers that the stack runs while nobody calls: what its file says, or the floor of its autoscaler at this moment."""
        policy = scaling_policy(self.settings)
        if policy is None or policy.paused:
            return self.settings.replicas
        if policy.mechanism == "gke":  # whose metrics nobody plays: the autoscaler keeps to its minimum
            return max(1, policy.min)
        here = self.keda.now.astimezone(ZoneInfo(policy.timezone))
        return policy.floor(here.weekday() * DAY_MINUTES + here.hour * 60 + here.minute)

    @property
    def server(self) -> str:
        """Name of the server's Deployment and of its pods' label `app`."""
        return self.settings.server.name

    @property
    def namespace(self) -> str:
        """The stack's namespace."""
        return self.settings.namespace

    @property
    def base(self) -> Recording:
        """The stack as its file says, recorded once."""
        if self._base is None:
            self._base = self.record()
        return self._base

    def record(self, sections: Mapping[str, Any] | None = None) -> Recording:
        """The program under changed settings, as `varied` spells them. Raises SettingsError and ProgramError."""
        return record_stack(varied(self.opened, sections) if sections else self.opened, "known")

    def preview(self, sections: Mapping[str, Any] | None = None) -> Recording:
        """The preview that `pulumi up` begins with: the program meets its objects with the status that they have by now.

        Raises SettingsError and ProgramError.
        """
        live = {}
        for urn, applied in self.state.resources.items() if self.state else ():
            for ref in applied.objects if is_object(applied.resource) else ():
                one = self.api.get(ref.kind, ref.name, ref.namespace)
                if one is not None and "status" in one:
                    live[urn] = {"status": one["status"]}
        return record_stack(varied(self.opened, sections) if sections else self.opened, "preview", live=live)

    def up(self, recording: Recording | None = None, *, upsert_existing: bool = False) -> ApplyReport:
        """`pulumi up`: the recording, or the stack as its file says, over whatever is applied so far."""
        report = self.applier.up(recording or self.base, self.state, upsert_existing=upsert_existing)
        self.state = report.state
        return report

    def bring_up(self, recording: Recording | None = None, servers: int | None = None) -> ApplyReport:
        """First `up`, and the wait until every server is Ready; both are timed. Raises DrillBrokenOffError with the reason."""
        wanted = self.servers if servers is None else servers
        self.began_seconds = self.clock.now_seconds()
        with self._phase("pulumi up"):
            report = self.first_report = self.up(recording)
        if report.failed:
            raise DrillBrokenOffError(f"the stack did not come up: {'; '.join(report.failed.values())}")
        with self._phase("last server Ready"):
            self.until_ready(wanted)
        return report

    def fingerprints(self) -> dict[str, tuple[str, str]]:
        """Every applied object that is there: its uid and what counts changes of what was asked of it."""
        found = {}
        for one in self.applied_objects():
            metadata = one["metadata"]
            found[f"{one['kind']}/{metadata['name']}"] = (
                metadata["uid"],
                str(metadata.get("generation") or metadata["resourceVersion"]),
            )
        return found

    def applied_objects(self) -> list[Manifest]:
        """Every object of the stack's state that is in the cluster."""
        refs = self.state.objects if self.state is not None else ()
        found = (self.api.get(ref.kind, ref.name, ref.namespace) for ref in refs)
        return [one for one in found if one is not None]

    def applied_share(self) -> float:
        """Share of the running `pulumi up` that is done, 0 to 1."""
        return self._done / self._total if self._total else 0.0

    # Looking and waiting

    def pods(self, app: str | None = None) -> list[Manifest]:
        """Pods with this label `app`, by name; the server's if none is given."""
        wanted = app or self.server
        found = [pod for pod in self.world.pods.all() if (pod["metadata"].get("labels") or {}).get("app") == wanted]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def ready_pods(self, app: str | None = None) -> list[Manifest]:
        """The pods among them that would get requests."""
        return [pod for pod in self.pods(app) if is_ready(pod)]

    def until(
        self,
        what: str,
        condition: Callable[[], T | None],
        simulated_seconds: float,
        why: Callable[[], str] | None = None,
    ) -> T:
        """The first truthy answer of `condition`.

        Raises DrillBrokenOffError after that much simulated time and the controllers' lag; `why` says what is there instead.
        """
        deadline = time.monotonic() + self.clock.wall_seconds(simulated_seconds) + LAG_SECONDS
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() >= deadline:
                instead = f"; {why()}" if why else ""
                raise DrillBrokenOffError(f"waited {simulated_seconds / 60:.0f} simulated minutes for {what}{instead}")
            time.sleep(POLL_SECONDS)

    def until_ready(self, servers: int, simulated_seconds: float | None = None) -> float:
        """Wait until that many servers are Ready, no more and no fewer; the simulated moment."""
        limit = simulated_seconds or self.timings.whole_start_seconds * 2
        self.until(
            f"{servers} Ready servers",
            lambda: self.meter.ready_servers.now == servers and self.meter.servers.now == servers,
            limit,
            lambda: f"{self.meter.ready_servers.now} are Ready of {self.meter.servers.now}",
        )
        return self.clock.now_seconds()

    def scale(self, replicas: int, name: str | None = None) -> None:
        """`kubectl scale`: what a person or an autoscaler does past Pulumi."""
        self.timeline.note("operator", name or self.server, f"kubectl scale --replicas={replicas}")
        self.api.patch(
            DEPLOYMENT, name or self.server, self.namespace, {"spec": {"replicas": replicas}}, subresource="scale"
        )

    def rest(self, now: datetime = A_MONDAY) -> None:
        """It is this moment, nobody calls, and the servers are those of the autoscaler's floor, without the hours of going down."""
        self.keda.restart_at(now)
        self.scale(self.servers)

    # Two stacks, and an apply that somebody interrupts

    def another(self, sections: Mapping[str, Any]) -> Recording:
        """A second stack with a cluster of its own, recorded: this one's file, without its names, with `sections` written over it."""
        other = replace(self.opened, file=replace(self.opened.file, stack=f"{self.opened.file.stack}-two"))
        return record_stack(varied(other, {**_NAMELESS, **sections}), "known")

    def guest(self, sections: Mapping[str, Any]) -> Recording:
        """A second stack that uses this one's cluster, recorded: this one's file, without its names, with `sections` written over it."""
        file = self.opened.file
        reference = {"platform": {"stack": file.stack}}
        # A guest has no say in what its platform owns, and the file's own network would be refused.
        owned = dict.fromkeys((f"{NAMESPACE}:{name}" for name in ("network", "cluster", "results", "budget")), "{}")
        host = replace(self.opened, config={**self.opened.config, **owned})
        benchmark = {"benchmark": {"enabled": False}, "gateway": {"enabled": False}}
        other = replace(host, file=replace(file, stack=f"{file.stack}-guest"))
        return record_stack(varied(other, {**_NAMELESS, **reference, **benchmark, **sections}), "known")

    @contextlib.contextmanager
    def up_in_background(self, recording: Recording | None = None) -> Iterator[Future[ApplyReport]]:
        """`pulumi up` in a thread of its own, while the drill does something to it; waited for at the end of the block."""
        with ThreadPoolExecutor(1, thread_name_prefix="pulumi-up") as pool:
            running = pool.submit(self.up, recording)
            try:
                yield running
            except BaseException:
                self.applier.cancel()
                raise

    # Life

    def restore(self) -> None:
        """Bring the stack back to what its file says, whatever a drill did to it. Raises DrillBrokenOffError."""
        self.stock.restore(Stock.for_settings(self.settings))
        if self.settings.scales_by_keda:
            self.rest()
        elif isinstance(fixed := self.settings.server.fixed_replicas, int):
            forget_scaling(self.api, self.server, self.namespace, fixed)
        report = self.up()
        if report.failed:
            raise DrillBrokenOffError(f"the stack could not be set right: {'; '.join(report.failed.values())}")
        self.until_ready(self.servers)
        if self.is_scattered:
            # The autoscaler would move servers together in time, which is not played.
            self.up(self.record({"server": {"replicas": 0}, "benchmark": {"enabled": False}}))
            self.until(
                "every machine to go", lambda: self.meter.gpu_nodes.now == 0, 4 * self.timings.scale_down_seconds
            )
            self.up()
            self.until_ready(self.servers)
        self.until(
            "machines that are not needed to go",
            lambda: self.meter.gpu_nodes.now <= self.machines_for(self.servers),
            2 * self.timings.scale_down_seconds,
        )

    def __enter__(self) -> Stage:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(type_, error, trace)

    def _start(self) -> None:
        timings, least_empty = timings_for(self.settings), EMPTY_WALL_SECONDS * self.clock.speed
        self.timings = replace(timings, scale_down_seconds=max(timings.scale_down_seconds, least_empty))
        with self._phase("control plane"):
            stages = kubelet_stages(self.timings, self.clock)
            self.control_plane = self._stack.enter_context(
                ControlPlane(
                    self.around.binaries,
                    stages=stages,
                    autoscaler_wall_seconds=sync_wall_seconds(self.clock.speed),
                    progress=self.around.progress,
                )
            )
            self.api = self.control_plane.api
        with self._phase("definitions"):
            install(self.api, self.around.definitions)
            autopilot(self.api)
        self.world = World(self.api, self.clock, self.timeline)
        self.meter = Meter(self.world, self.server)
        self.story = Story(self.world)
        self.stock = Stock.for_settings(self.settings)
        self.writer = Writer(self.world, self.timings)
        self.standby = Standby(self.world, self.timings)
        self.caches = CompileCaches(self.world)
        self.guards = self._stack.enter_context(SpendingGuards(self.world, self.control_plane.kubeconfig))
        self.provisioner = Provisioner(self.world, self.stock, self.timings, project=self.settings.project)
        disks, prometheus = Disks(self.world, self.timings), ManagedPrometheus(self.world, self.timings)
        self.gateway = GatewayController(self.world, prerequisites_of(self.base), self.timings)
        if self.settings.scales_by_keda:
            self.keda = Keda(self.world, self._in_flight())
        self._stack.enter_context(self.world)
        if self.settings.scales_by_keda:
            self._stack.enter_context(self.keda)
            if not self.settings.makes_keda:  # whoever owns the cluster has installed it
                install(self.api, keda_definitions(self.around.charts.modules))
                self.keda.run_without_pods()
        for one in (self.provisioner, disks, self.gateway, self.writer, self.standby, self.caches, prometheus):
            self._stack.enter_context(one)
        self.applier = Applier(
            self.api,
            self.clock,
            self.timeline,
            chart_objects=self.around.charts.objects,
            on_progress=self._tell,
            slack_seconds=SLACK_SECONDS if self.clock.speed <= QUICK_SPEED else 3 * LAG_SECONDS,
        )

    def _in_flight(self) -> InFlight:
        from fleet.rehearse.traffic.traffic import load_of

        return InFlight(
            self.clock.now_seconds,
            self.meter.ready_servers.at,
            capacity_per_server=self.settings.serving.concurrency_per_replica,
            request_seconds=load_of(self.settings).request_seconds,
            app=self.server,
            namespace=self.namespace,
        )

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self.around.progress(name)
        yield
        self.phase_seconds[name] = time.monotonic() - began

    def _tell(self, event: ApplyEvent) -> None:
        if event.phase in ("done", "failed"):
            self._done, self._total = event.done, event.total
        self.around.progress(f"{event.name}: {event.text or event.phase} ({event.done} of {event.total})")
