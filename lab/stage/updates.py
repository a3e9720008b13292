"""`pulumi` on one stage: the real engine, with providers on the stage's cluster and a simulated Google Cloud."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleet.preview.record.redact import Redactor
from lab.control_plane.api import ClusterApi
from lab.engine.events import Outcome
from lab.engine.installation import attached
from lab.engine.operation import Operation
from lab.engine.pulumi import Pulumi
from lab.engine.state import StackState
from lab.providers.base import Served
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.google.provider import Google
from lab.providers.kubernetes.inventory import account, findings_of
from lab.providers.kubernetes.operations import Operations
from lab.providers.kubernetes.provider import Kubernetes
from lab.providers.kubernetes.releases import Releases
from lab.providers.kubernetes.waiter import Waiter
from lab.providers.observed import Observed
from lab.results.clock import Clock
from lab.results.timeline import Timeline
from lab.stage.update_report import DestroyReport, UpReport

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from lab.cloud.chart import Release
    from lab.control_plane.api import Manifest

SKIP_PREVIEW: Final = "--skip-preview"


class Updates:
    """Runs the engine. A context manager."""

    def __init__(
        self,
        root: Path,
        api: ClusterApi,
        clock: Clock,
        timeline: Timeline,
        *,
        chart_objects: Callable[[Release], list[Manifest]],
        redactor: Redactor,
        slack_seconds: float,
        folder: Path,
        kubeconfig: Path,
        progress: Callable[[str], None],
    ) -> None:
        """`folder`: new, private, and the caller's to remove. `slack_seconds`: minimum wall time of a wait; see waiter.SLACK_SECONDS."""
        self._root, self._folder, self._kubeconfig = root, folder, kubeconfig
        self._api, self._progress = api, progress
        self._redactor, self._chart_objects = redactor, chart_objects
        self._stop, self._killed = threading.Event(), threading.Event()
        self._clock, self._slack_seconds = clock, slack_seconds
        self.observed = Observed(clock, timeline, progress)
        self.cloud = SimulatedCloud()
        self.upsert_variables: dict[str, str] = {}
        """Environment of an operation whose creates update existing objects, as with the provider's variable."""
        self._running: Operation | None = None
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> Updates:
        with contextlib.ExitStack() as opened:
            self._waiter = opened.enter_context(Waiter(self._api, self._clock, self._stop, self._slack_seconds))
            google = Google(self.observed, self.cloud)
            plain = opened.enter_context(Served(google, self._kubernetes(upsert=False)))
            upsert = opened.enter_context(Served(self._kubernetes(upsert=True)))
            self.upsert_variables = attached({**plain.ports, **upsert.ports})
            self.pulumi = Pulumi(
                self._root,
                self._folder,
                providers=plain.ports,
                progress=self._progress,
                variables={"KUBECONFIG": str(self._kubeconfig)},
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _kubernetes(self, *, upsert: bool) -> Kubernetes:
        operations = Operations(self._api, self._clock, self._waiter, self._stop, self._killed, upsert=upsert)
        releases = Releases(operations, self._chart_objects)
        return Kubernetes(self.observed, self._api, operations, releases, self._redactor, self._stop)

    # What a person types

    def write(self, stack: OfflineStack) -> str:
        """Make this the content of its stack file; the name of the stack."""
        self.pulumi.stage(stack)
        return stack.file.stack

    def up(self, stack: str, *options: str, upsert: bool = False) -> UpReport:
        """`pulumi up` with these options. `upsert`: with the Kubernetes provider's variable set."""
        variables = self.upsert_variables if upsert else None
        outcome = self._operate("up", stack, *options, variables=variables)
        return UpReport.of(outcome, self.observed, self._redactor)

    def preview(self, stack: str, *options: str) -> Outcome:
        """`pulumi preview`."""
        return self._operate("preview", stack, *options)

    def refresh(self, stack: str, *options: str) -> Outcome:
        """`pulumi refresh`."""
        return self._operate("refresh", stack, *options)

    def destroy(self, stack: str, *options: str) -> DestroyReport:
        """`pulumi destroy`, and what remains."""
        before = self.pulumi.state(stack)
        outcome = self._operate("destroy", stack, *options)
        report = UpReport.of(outcome, self.observed, self._redactor)
        after = self.pulumi.state(stack)
        retained, unexpected = ((), ()) if not report.deleted else account(self._api, self._waiter, before, after)
        return DestroyReport(
            began_seconds=report.began_seconds,
            deleted=report.deleted,
            failed=report.failed,
            retained=retained,
            unexpected=unexpected,
            findings=findings_of(unexpected),
        )

    def state(self, stack: str) -> StackState:
        """The stack's state."""
        return self.pulumi.state(stack)

    def cancel(self) -> None:
        """Ctrl-C."""
        self.observed.may_change.set()
        if (running := self._running) is not None:
            running.cancel()

    def kill(self) -> None:
        """`kill -9` of the engine and its plugins: what they were doing stays undone."""
        self._killed.set()
        self._stop.set()
        self.observed.may_change.set()
        if (running := self._running) is not None:
            running.kill()
        self.observed.until_idle()

    def _operate(
        self, operation: str, stack: str, *options: str, variables: Mapping[str, str] | None = None
    ) -> Outcome:
        self._stop.clear()
        self._killed.clear()
        self.observed.begin()
        try:
            with self.pulumi.start(operation, stack, *options, variables=variables) as self._running:
                return self._running.wait()
        finally:
            self._running = None
