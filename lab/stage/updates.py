"""`pulumi` on one stage: the real engine and the real Kubernetes provider, on the stage's cluster and a simulated Google Cloud."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from facts.names import CREDENTIALS_PLUGIN
from fleet.preview.record.redact import Redactor
from lab.control_plane.api import ClusterApi
from lab.engine.events import Event, Outcome, Step, Summary
from lab.engine.operation import Operation
from lab.engine.options import SKIP_PREVIEW, UPSERT
from lab.engine.pulumi import Pulumi
from lab.engine.state import StackState
from lab.providers.base import Served
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.google.provider import Google
from lab.stage.leftovers import account
from lab.stage.update_report import DestroyReport, UpReport

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from lab.charts.registry import Registry
    from lab.control_plane.cluster import ControlPlane
    from lab.engine.installation import Plugin


@contextlib.contextmanager
def updating(
    root: Path,
    control_plane: ControlPlane,
    *,
    cloud: SimulatedCloud,
    plugin: Plugin,
    registry: Registry,
    redactor: Redactor,
    progress: Callable[[str], None],
) -> Iterator[Updates]:
    """The engine with its providers, on this control plane."""
    folder = control_plane.folder / "pulumi"
    tools = control_plane.folder / "tools"
    tools.mkdir()
    _write_credentials_plugin(tools, control_plane.credentials.token)
    with Served(Google(cloud)) as served:
        variables = {
            "PATH": str(tools),
            "KUBECONFIG": str(control_plane.kubeconfig),
            # The program's kubeconfig names no authority: Google's endpoints have public certificates.
            "SSL_CERT_FILE": str(control_plane.credentials.authority),
            "HTTPS_PROXY": f"http://{registry.address}",
            "NO_PROXY": "127.0.0.1,localhost",
            # The provider's Helm would keep its index and archives in the user's home.
            **{
                f"HELM_{kind}_HOME": str(control_plane.folder / "helm" / kind.lower())
                for kind in ("CACHE", "CONFIG", "DATA")
            },
        }
        pulumi = Pulumi(root, folder, providers=served.ports, plugin=plugin, progress=progress, variables=variables)
        yield Updates(api=control_plane.api, cloud=cloud, redactor=redactor, pulumi=pulumi, progress=progress)


def _write_credentials_plugin(folder: Path, token: str) -> None:
    """What the program's kubeconfig asks for credentials."""
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    plugin = folder / CREDENTIALS_PLUGIN
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n", encoding="utf-8")
    plugin.chmod(0o700)


@dataclass(kw_only=True)
class Updates:
    """Runs the engine. `updating` makes it."""

    api: ClusterApi
    cloud: SimulatedCloud
    redactor: Redactor
    pulumi: Pulumi
    progress: Callable[[str], None]
    running: Operation | None = None
    done: set[str] = field(default_factory=set)
    """URNs of the latest operation's resources that are done."""
    begun: threading.Event = field(default_factory=threading.Event)
    """Set once the latest operation works on an object of the cluster."""
    _applies: bool = False
    """Whether the preview of the running operation, if it has one, has ended."""

    # What a person types

    def write(self, stack: OfflineStack) -> str:
        """Make this the content of its stack file; the name of the stack."""
        self.pulumi.stage(stack)
        return stack.file.stack

    def up(self, stack: str, *options: str, upsert: bool = False) -> UpReport:
        """`pulumi up` with these options. `upsert`: with the Kubernetes provider's variable set."""
        return UpReport.of(self._operate("up", stack, *options, upsert=upsert), self.redactor)

    def preview(self, stack: str, *options: str) -> Outcome:
        """`pulumi preview`."""
        return self._operate("preview", stack, *options)

    def refresh(self, stack: str, *options: str) -> Outcome:
        """`pulumi refresh`."""
        return self._operate("refresh", stack, *options)

    def destroy(self, stack: str, *options: str) -> DestroyReport:
        """`pulumi destroy`, and what remains."""
        before = self.pulumi.state(stack)
        report = UpReport.of(self._operate("destroy", stack, *options), self.redactor)
        after = self.pulumi.state(stack)
        retained, unexpected = account(self.api, before, after) if report.deleted else ((), ())
        return DestroyReport(deleted=report.deleted, failed=report.failed, retained=retained, unexpected=unexpected)

    def state(self, stack: str) -> StackState:
        """The stack's state."""
        return self.pulumi.state(stack)

    def cancel(self) -> None:
        """Ctrl-C."""
        if (running := self.running) is not None:
            running.cancel()

    def kill(self) -> None:
        """`kill -9` of the engine and its plugins: what they were doing stays undone."""
        if (running := self.running) is not None:
            running.kill()

    def begin(self) -> None:
        """Forget the latest operation."""
        self.done.clear()
        self.begun.clear()

    def _operate(self, operation: str, stack: str, *options: str, upsert: bool = False) -> Outcome:
        self.begin()
        self._applies = SKIP_PREVIEW in options
        variables = UPSERT if upsert else None
        try:
            with self.pulumi.start(
                operation, stack, *options, variables=variables, on_event=self._heard
            ) as self.running:
                return self.running.wait()
        finally:
            self.running = None

    def _heard(self, event: Event) -> None:
        if isinstance(event, Summary) and event.of_preview:
            self._applies = True
        if not self._applies or not isinstance(event, Step) or event.operation == "same" or not event.provider:
            return
        if event.phase == "started" and event.type.startswith("kubernetes:"):
            self.begun.set()
        if event.phase == "done":
            self.done.add(event.urn)
        self.progress(f"{event.type.rpartition(':')[2]} {event.name}: {event.operation}, {event.phase}")
