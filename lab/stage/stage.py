"""The environment of a drill: control plane, simulated Google Cloud, the stack, and meters."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fleet.preview.offline import OfflineStack, record_stack
from fleet.preview.record.recording import Recording
from lab.cloud.chart import Charts
from lab.cloud.gateway import GatewayController
from lab.cloud.provisioner import Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.cloud.world import World, is_ready
from lab.control_plane.api import DEPLOYMENT, ClusterApi, Manifest
from lab.control_plane.cluster import ControlPlane
from lab.providers.kubernetes.state import ObjectRef, objects_of
from lab.results.clock import DEFAULT_SPEED, Clock
from lab.results.result import DrillBrokenOffError
from lab.stage.domain import Domain
from lab.stage.giving_back import forget_scaling
from lab.stage.meter import Meter
from lab.stage.update_report import DestroyReport, UpReport
from lab.stage.updates import SKIP_PREVIEW, Updates
from lab.stage.variants import varied
from settings.derived.scaling import scaling_policy

if TYPE_CHECKING:
    from lab.control_plane.build import Binaries
    from lab.engine.events import Outcome
    from settings.stack import Settings

Progress = Callable[[str], None]
T = TypeVar("T")

LAG_SECONDS: Final = 135.0
"""Additional wall time for Kubernetes' controllers on a busy machine: a wait ends at its condition, and this limit only where that never
comes. Assumed: nine times the slowest seen on two cores, for three rehearsals at once."""
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Shared by all stages of a rehearsal: programs, definitions, speed."""

    binaries: Binaries
    definitions: tuple[Manifest, ...]
    """CustomResourceDefinitions that GKE preinstalls."""
    charts: Charts
    recordings: dict[str, Recording] = field(default_factory=dict)
    """Of programs with their settings, by `recording_key`: each takes seconds on a busy machine."""
    speed: float = DEFAULT_SPEED
    progress: Progress = field(default=lambda _: None)


def recording_key(stack: OfflineStack) -> str:
    """Tells stacks with different settings apart."""
    return json.dumps([stack.file.stack, sorted(stack.config.items())])


def record(stack: OfflineStack, around: Surroundings) -> Recording:
    """Record a program offline, once for all stages. Raises ProgramError."""
    key = recording_key(stack)
    if key not in around.recordings:
        around.recordings[key] = record_stack(stack, "known")
    return around.recordings[key]


@dataclass(kw_only=True)
class History:
    """What has happened on a stage so far."""

    first_report: UpReport = field(default_factory=UpReport)
    """Of the bring-up; empty before."""
    as_declared: dict[str, tuple[str, str]] | None = None
    """Fingerprints after the last `up`, if that was of the unchanged stack."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stack on one running control plane. `start.started` makes it."""

    opened: OfflineStack
    around: Surroundings
    clock: Clock
    timings: Timings
    control_plane: ControlPlane
    world: World
    meter: Meter
    stock: Stock
    provisioner: Provisioner
    gateway: GatewayController
    domain: Domain
    """Addresses, certificates and public DNS."""
    updates: Updates
    """The Pulumi engine."""
    history: History

    @property
    def api(self) -> ClusterApi:
        """The API server."""
        return self.control_plane.api

    @property
    def began_seconds(self) -> float:
        """First call for a Kubernetes object of the bring-up: what the engine needs before is not the cloud's time."""
        return self.history.first_report.began_seconds

    @property
    def settings(self) -> Settings:
        """The stack's own settings."""
        return self.opened.settings

    def machines_for(self, servers: int) -> int:
        """Nodes needed by that many replicas."""
        return ceil(servers / self.servers_a_machine)

    @property
    def servers_a_machine(self) -> int:
        """Replicas per node."""
        return self.settings.machine.gpus // self.settings.gpus_per_replica

    @property
    def is_scattered(self) -> bool:
        """Whether replicas use more nodes than they need, as after a scale-down."""
        in_use = {pod["spec"]["nodeName"] for pod in self.ready_pods()}
        return len(in_use) > self.machines_for(self.servers)

    @property
    def servers(self) -> int:
        """Replicas without load: the stack file's number, or the autoscaler's minimum."""
        policy = scaling_policy(self.settings)
        return self.settings.replicas if policy is None or policy.paused else policy.min

    @property
    def server(self) -> str:
        """Name of the server's Deployment, and its pods' label `app`."""
        return self.settings.server.name

    @property
    def namespace(self) -> str:
        """The stack's namespace."""
        return self.settings.namespace

    @property
    def base(self) -> Recording:
        """The unchanged stack."""
        return self.record()

    def record(self, sections: Mapping[str, Any] | None = None) -> Recording:
        """Record the program offline with changed settings, as in `varied`. Raises SettingsError and ProgramError."""
        return record(self.varied(sections), self.around)

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self.opened.file.stack

    def varied(self, sections: Mapping[str, Any] | None = None) -> OfflineStack:
        """The stack with changed settings. Raises SettingsError."""
        return varied(self.opened, sections) if sections else self.opened

    def preview(self, sections: Mapping[str, Any] | None = None) -> Outcome:
        """`pulumi preview`, by default of the unchanged stack. Raises SettingsError."""
        return self.updates.preview(self.updates.write(self.varied(sections)))

    def up(self, sections: Mapping[str, Any] | None = None, *, upsert: bool = False) -> UpReport:
        """`pulumi up --skip-preview`, by default of the unchanged stack. Raises SettingsError."""
        report = self.updates.up(self.updates.write(self.varied(sections)), SKIP_PREVIEW, upsert=upsert)
        self.history.as_declared = self.fingerprints() if not sections and not report.failed else None
        return report

    def destroy(self, *options: str) -> DestroyReport:
        """`pulumi destroy`."""
        return self.updates.destroy(self.stack, *options)

    def bring_up(self, sections: Mapping[str, Any] | None = None, servers: int | None = None) -> UpReport:
        """First `up`, and the wait until all replicas are Ready. Raises DrillBrokenOffError.

        The unchanged stack comes up with the policy pack and a preview, as in the README.
        """
        wanted = self.servers if servers is None else servers
        options = (SKIP_PREVIEW,) if sections else self.policies()
        self.around.progress("pulumi up")
        report = self.history.first_report = self.updates.up(self.updates.write(self.varied(sections)), *options)
        if report.failed:
            raise DrillBrokenOffError(f"the stack did not come up: {'; '.join(report.failed.values())}")
        self.around.progress("last replica Ready")
        self.until_ready(wanted)
        self.history.as_declared = None if sections else self.fingerprints()
        return report

    def policies(self) -> tuple[str, ...]:
        """Options of the policy pack, as in the README."""
        config = f"policy/config/{self.stack}.json"
        there = (self.opened.root / config).is_file()
        return ("--policy-pack", "policy", *(("--policy-pack-config", config) if there else ()))

    def fingerprints(self) -> dict[str, tuple[str, str]]:
        """UIDs and generations of existing applied objects by kind and name; of a Deployment that KEDA scales, what else it says.

        Objects of one name in several namespaces are one entry, in whatever order the state has them.
        """
        found: dict[str, list[tuple[str, str]]] = {}
        for manifest in self.applied_objects():
            name = f"{manifest['kind']}/{manifest['metadata']['name']}"
            found.setdefault(name, []).append((manifest["metadata"]["uid"], self._said_by(manifest)))
        return {
            name: (" ".join(uid for uid, _ in sorted(those)), " ".join(said for _, said in sorted(those)))
            for name, those in found.items()
        }

    def _said_by(self, manifest: Manifest) -> str:
        metadata = manifest["metadata"]
        if self.settings.scales_by_keda and (manifest["kind"], metadata["name"]) == ("Deployment", self.server):
            return json.dumps({**manifest["spec"], "replicas": None}, sort_keys=True)
        return str(metadata.get("generation") or metadata["resourceVersion"])

    def applied_objects(self) -> list[Manifest]:
        """Existing objects of the stack's state."""
        manifests = (self.api.get(ref.kind, ref.name, ref.namespace) for ref in self.objects())
        return [manifest for manifest in manifests if manifest is not None]

    def objects(self) -> tuple[ObjectRef, ...]:
        """Objects in the stack's state."""
        return objects_of(self.updates.state(self.stack))

    def applied_share(self) -> float:
        """Completed share of the running `pulumi up`, 0 to 1."""
        total = sum(resource.type.startswith(("gcp:", "kubernetes:")) for resource in self.base.resources)
        return len(self.updates.observed.finished_seconds) / total

    # Reads and waits

    def pods(self, app: str | None = None) -> list[Manifest]:
        """Pods with this label `app`, by name; default: the server's."""
        wanted = app or self.server
        pods = [pod for pod in self.world.pods.all() if (pod["metadata"].get("labels") or {}).get("app") == wanted]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def ready_pods(self, app: str | None = None) -> list[Manifest]:
        """Ready pods among them."""
        return [pod for pod in self.pods(app) if is_ready(pod)]

    def until(
        self,
        what: str,
        condition: Callable[[], T | None],
        simulated_seconds: float,
        why: Callable[[], str] | None = None,
    ) -> T:
        """Wait for the first truthy result of `condition` and return it.

        Raises DrillBrokenOffError after that much simulated time and the controllers' lag; `why` describes the current state.
        """
        deadline = time.monotonic() + self.clock.wall_seconds(simulated_seconds) + LAG_SECONDS
        while True:
            if result := condition():
                return result
            if time.monotonic() >= deadline:
                instead = f"; {why()}" if why else ""
                raise DrillBrokenOffError(f"waited {simulated_seconds / 60:.0f} simulated minutes for {what}{instead}")
            time.sleep(POLL_SECONDS)

    def until_ready(self, servers: int, simulated_seconds: float | None = None) -> float:
        """Wait until exactly that many replicas are Ready; returns the simulated time."""
        limit = simulated_seconds or self.timings.whole_start_seconds * 2
        self.until(
            f"{servers} Ready replicas",
            lambda: self.meter.ready_servers.now == servers and self.meter.servers.now == servers,
            limit,
            lambda: f"{self.meter.ready_servers.now} of {self.meter.servers.now} are Ready",
        )
        return self.clock.now_seconds()

    def until_empty(self) -> None:
        """Wait until no GPU node is left."""
        self.until("every GPU node to go", lambda: self.meter.gpu_nodes.now == 0, 4 * self.timings.scale_down_seconds)

    def scale(self, replicas: int, name: str | None = None) -> None:
        """`kubectl scale`."""
        self.api.patch(
            DEPLOYMENT, name or self.server, self.namespace, {"spec": {"replicas": replicas}}, subresource="scale"
        )

    # pulumi up in the background

    @contextlib.contextmanager
    def up_in_background(self, sections: Mapping[str, Any] | None = None) -> Iterator[Future[UpReport]]:
        """Run `pulumi up` in a thread while the block runs; wait for it at the end."""
        self.updates.observed.begin()
        with ThreadPoolExecutor(1, thread_name_prefix="pulumi-up") as pool:
            running = pool.submit(self.up, sections)
            try:
                yield running
            except BaseException:
                self.updates.cancel()
                raise

    def until_applying(self, running: Future[UpReport]) -> None:
        """Wait until a `pulumi up` in the background calls for its first object, or has ended.

        The time before is the engine's own: of the wall, longer on a busy machine, and no part of a simulated limit.
        """
        while not (running.done() or self.updates.observed.has_begun):
            time.sleep(POLL_SECONDS)

    # Life cycle

    def restore(self) -> None:
        """Restore the stack as its file declares it, after a drill. Raises DrillBrokenOffError."""
        self.stock.restore(Stock.for_settings(self.settings))
        if isinstance(fixed := self.settings.server.fixed_replicas, int):
            forget_scaling(self.api, self.server, self.namespace, fixed)
        if self.history.as_declared != self.fingerprints():
            report = self.up()
            if report.failed:
                raise DrillBrokenOffError(f"the stack could not be restored: {'; '.join(report.failed.values())}")
        self.until_ready(self.servers)
        if self.is_scattered:
            # Consolidation by the autoscaler is not simulated.
            self.up({"server": {"replicas": 0}, "benchmark": {"enabled": False}})
            self.until_empty()
            self.up()
            self.until_ready(self.servers)
        self.until(
            "unneeded nodes to go",
            lambda: self.meter.gpu_nodes.now <= self.machines_for(self.servers),
            2 * self.timings.scale_down_seconds,
        )
