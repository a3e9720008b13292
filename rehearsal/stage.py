"""Everything a drill stands on, alive: the control plane, Google's part, the stack, and the instruments that watch them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rehearsal.api import DEPLOYMENT, POD, ClusterApi, Manifest
from rehearsal.clock import DEFAULT_SPEED, Clock
from rehearsal.drills.drill import DrillBrokenOffError
from rehearsal.meter import Meter
from rehearsal.simulation.world import World, is_ready
from rehearsal.timeline import Timeline
from rehearsal.variants import varied

if TYPE_CHECKING:
    from preview.offline import OfflineStack
    from preview.recording import Recording
    from rehearsal.apply.applier import Applier, ApplyReport
    from rehearsal.apply.state import AppliedState
    from rehearsal.control_plane.build import Binaries
    from rehearsal.simulation.disks import Disks
    from rehearsal.simulation.gateway import GatewayController
    from rehearsal.simulation.provisioner import Provisioner
    from rehearsal.simulation.stock import Stock
    from rehearsal.simulation.timings import Timings
    from settings.settings import Settings

Progress = Callable[[str], None]
T = TypeVar("T")

LAG_SECONDS: Final = 45.0
"""Wall time that Kubernetes' own controllers may need on a busy machine, on top of whatever the clock says.
Assumed: the slowest seen on two cores was a third of it."""
POLL_SECONDS: Final = 0.05
PHASES: Final = ("control plane", "definitions", "stack", "ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every stage of a rehearsal shares: the programs to run, or somebody's cluster, and how fast time goes."""

    binaries: Binaries
    definitions: tuple[Manifest, ...]
    """CustomResourceDefinitions that GKE or its add-ons bring."""
    speed: float = DEFAULT_SPEED
    kubeconfig: Path | None = None
    context: str | None = None
    progress: Progress = field(default=lambda _: None)


class Stage:
    """One stack on one control plane. A context manager: entering starts everything, leaving ends everything."""

    api: ClusterApi
    world: World
    meter: Meter
    stock: Stock
    provisioner: Provisioner
    disks: Disks
    gateway: GatewayController
    applier: Applier

    def __init__(self, opened: OfflineStack, around: Surroundings, *, speed: float | None = None) -> None:
        self.opened = opened
        self.around = around
        self.clock = Clock(speed or around.speed)
        self.timeline = Timeline(self.clock)
        self.state: AppliedState | None = None
        self.phase_seconds: dict[str, float] = {}
        """Wall seconds of each phase of the bring-up."""
        self._stack = contextlib.ExitStack()
        self._base: Recording | None = None

    @property
    def settings(self) -> Settings:
        """The stack's own settings."""
        return self.opened.settings

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
        from preview.offline import record_stack

        return record_stack(varied(self.opened, sections) if sections else self.opened, "known")

    def up(self, recording: Recording | None = None) -> ApplyReport:
        """`pulumi up`: the recording, or the stack as its file says, over whatever is applied so far."""
        report = self.applier.up(recording or self.base, self.state)
        self.state = report.state
        return report

    def bring_up(self, recording: Recording | None = None) -> ApplyReport:
        """First `up`, and the wait until every server is Ready; both phases are timed. Raises DrillBrokenOffError."""
        began = time.monotonic()
        report = self.up(recording)
        self.phase_seconds["stack"] = time.monotonic() - began
        if report.failed:
            raise DrillBrokenOffError(f"the stack did not come up: {'; '.join(report.failed.values())}")
        return report

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

    # Life

    def __enter__(self) -> Stage:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
