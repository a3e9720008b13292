"""The environment of a drill: control plane, simulated Google Cloud, the stack, and meters."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fleet.preview.offline import OfflineStack, record_stack
from fleet.preview.record.recording import Recording
from lab.charts.package import Chart
from lab.charts.registry import Registry
from lab.control_plane.api import DEPLOYMENT, ClusterApi, Manifest
from lab.control_plane.cluster import ControlPlane
from lab.control_plane.mirror import Mirror
from lab.engine.options import SKIP_PREVIEW
from lab.nodes.maker import NodeMaker
from lab.results.result import DrillBrokenOffError
from lab.stage.giving_back import forget_scaling
from lab.stage.meter import Meter, is_ready
from lab.stage.objects import ObjectRef, objects_of
from lab.stage.update_report import DestroyReport, UpReport
from lab.stage.updates import Updates
from lab.stage.variants import varied
from settings.derived.scaling import scaling_policy

if TYPE_CHECKING:
    from lab.control_plane.build import Binaries
    from lab.engine.events import Outcome
    from lab.engine.installation import Plugin
    from settings.stack import Settings

Progress = Callable[[str], None]
T = TypeVar("T")

PATIENCE_SECONDS: Final = 150.0
"""Longest wait for something that Kubernetes' controllers do. It ends at its condition, and here only where that never comes. Assumed:
ten times the slowest seen on two cores, for three rehearsals at once."""
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Shared by all stages of a rehearsal: programs, definitions, charts."""

    binaries: Binaries
    plugin: Plugin
    """The Kubernetes provider."""
    definitions: tuple[Manifest, ...]
    """CustomResourceDefinitions that GKE preinstalls."""
    modules: Mapping[str, Path]
    """Folder of each module of `modules.pinned`."""
    charts: tuple[Chart, ...]
    recordings: dict[str, Recording] = field(default_factory=dict)
    """Of programs with their settings, by `recording_key`: each takes seconds on a busy machine."""
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
    control_plane: ControlPlane
    nodes: Mirror
    pods_seen: Mirror
    meter: Meter
    maker: NodeMaker
    """Stands for Google's machines."""
    registry: Registry
    updates: Updates
    """The Pulumi engine."""
    history: History

    @property
    def api(self) -> ClusterApi:
        """The API server."""
        return self.control_plane.api

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
        return len(self.updates.done) / total

    # Reads and waits

    def pods(self, app: str | None = None) -> list[Manifest]:
        """Pods with this label `app`, by name; default: the server's."""
        wanted = app or self.server
        pods = [pod for pod in self.pods_seen.all() if (pod["metadata"].get("labels") or {}).get("app") == wanted]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def ready_pods(self, app: str | None = None) -> list[Manifest]:
        """Ready pods among them."""
        return [pod for pod in self.pods(app) if is_ready(pod)]

    def until(
        self,
        what: str,
        condition: Callable[[], T | None],
        *,
        seconds: float | None = None,
        why: Callable[[], str] = lambda: "",
    ) -> T:
        """Wait for the first truthy result of `condition` and return it.

        Raises DrillBrokenOffError after `seconds`, by default PATIENCE_SECONDS; `why` describes the current state.
        """
        limit = PATIENCE_SECONDS if seconds is None else seconds
        deadline = time.monotonic() + limit
        while True:
            if result := condition():
                return result
            if time.monotonic() >= deadline:
                instead = why()
                raise DrillBrokenOffError(f"waited {limit:.0f} s for {what}" + (f"; {instead}" if instead else ""))
            time.sleep(POLL_SECONDS)

    def until_ready(self, servers: int) -> None:
        """Wait until exactly that many replicas are Ready."""
        self.until(
            f"{servers} Ready replicas",
            lambda: self.meter.ready_servers.now == servers and self.meter.servers.now == servers,
            why=lambda: f"{self.meter.ready_servers.now} of {self.meter.servers.now} are Ready",
        )

    def until_empty(self) -> None:
        """Wait until no GPU node is left."""
        self.until("every GPU node to go", lambda: self.meter.gpu_nodes.now == 0)

    def scale(self, replicas: int, name: str | None = None) -> None:
        """`kubectl scale`."""
        self.api.patch(
            DEPLOYMENT, name or self.server, self.namespace, {"spec": {"replicas": replicas}}, subresource="scale"
        )

    # pulumi up in the background

    @contextlib.contextmanager
    def up_in_background(self, sections: Mapping[str, Any] | None = None) -> Iterator[Future[UpReport]]:
        """Run `pulumi up` in a thread while the block runs; wait for it at the end."""
        self.updates.begin()
        with ThreadPoolExecutor(1, thread_name_prefix="pulumi-up") as pool:
            running = pool.submit(self.up, sections)
            try:
                yield running
            except BaseException:
                self.updates.cancel()
                raise

    def until_applying(self, running: Future[UpReport]) -> None:
        """Wait until a `pulumi up` in the background works on its first object, or has ended."""
        while not (running.done() or self.updates.begun.is_set()):
            time.sleep(POLL_SECONDS)

    # Life cycle

    def restore(self) -> None:
        """Restore the stack as its file declares it, after a drill. Raises DrillBrokenOffError."""
        self.maker.gpu_nodes = None
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
        self.until("unneeded nodes to go", lambda: self.meter.gpu_nodes.now <= self.machines_for(self.servers))
