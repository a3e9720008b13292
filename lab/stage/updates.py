"""`pulumi` on one stage: the real engine, with providers on the stage's cluster and a simulated Google Cloud."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
from lab.stage.update_report import DestroyReport, UpReport

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from lab.cloud.chart import Release
    from lab.control_plane.api import Manifest

SKIP_PREVIEW: Final = "--skip-preview"


@contextlib.contextmanager
def updating(
    root: Path,
    api: ClusterApi,
    clock: Clock,
    *,
    chart_objects: Callable[[Release], list[Manifest]],
    redactor: Redactor,
    slack_seconds: float,
    folder: Path,
    kubeconfig: Path,
    progress: Callable[[str], None],
    cloud: SimulatedCloud,
) -> Iterator[Updates]:
    """The engine with its providers running.

    `folder`: new, private, and the caller's to remove. `slack_seconds`: minimum wall time of a wait; see waiter.SLACK_SECONDS.
    """
    stop, killed = threading.Event(), threading.Event()
    observed = Observed(clock, progress)
    with contextlib.ExitStack() as opened:
        waiter = opened.enter_context(Waiter(api, clock, stop, slack_seconds))

        def kubernetes(*, upsert: bool) -> Kubernetes:
            operations = Operations(api, clock, waiter, stop, killed, upsert=upsert)
            return Kubernetes(observed, api, operations, Releases(operations, chart_objects), redactor, stop)

        plain = opened.enter_context(Served(Google(observed, cloud), kubernetes(upsert=False)))
        upsert = opened.enter_context(Served(kubernetes(upsert=True)))
        variables = {"KUBECONFIG": str(kubeconfig)}
        yield Updates(
            api=api,
            waiter=waiter,
            redactor=redactor,
            stop=stop,
            killed=killed,
            observed=observed,
            cloud=cloud,
            pulumi=Pulumi(root, folder, providers=plain.ports, progress=progress, variables=variables),
            upsert_variables=attached({**plain.ports, **upsert.ports}),
        )


@dataclass(kw_only=True)
class Updates:
    """Runs the engine. `updating` makes it."""

    api: ClusterApi
    waiter: Waiter
    redactor: Redactor
    stop: threading.Event
    killed: threading.Event
    observed: Observed
    cloud: SimulatedCloud
    pulumi: Pulumi
    upsert_variables: Mapping[str, str]
    """Environment of an operation whose creates update existing objects, as with the provider's variable."""
    running: Operation | None = None

    # What a person types

    def write(self, stack: OfflineStack) -> str:
        """Make this the content of its stack file; the name of the stack."""
        self.pulumi.stage(stack)
        return stack.file.stack

    def up(self, stack: str, *options: str, upsert: bool = False) -> UpReport:
        """`pulumi up` with these options. `upsert`: with the Kubernetes provider's variable set."""
        variables = self.upsert_variables if upsert else None
        outcome = self._operate("up", stack, *options, variables=variables)
        return UpReport.of(outcome, self.observed, self.redactor)

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
        report = UpReport.of(outcome, self.observed, self.redactor)
        after = self.pulumi.state(stack)
        retained, unexpected = ((), ()) if not report.deleted else account(self.api, self.waiter, before, after)
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
        if (running := self.running) is not None:
            running.cancel()

    def kill(self) -> None:
        """`kill -9` of the engine and its plugins: what they were doing stays undone."""
        self.killed.set()
        self.stop.set()
        if (running := self.running) is not None:
            running.kill()
        self.observed.until_idle()

    def _operate(
        self, operation: str, stack: str, *options: str, variables: Mapping[str, str] | None = None
    ) -> Outcome:
        self.stop.clear()
        self.killed.clear()
        self.observed.begin()
        try:
            with self.pulumi.start(operation, stack, *options, variables=variables) as self.running:
                return self.running.wait()
        finally:
            self.running = None
