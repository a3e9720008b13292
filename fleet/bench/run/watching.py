"""Watch a launch from its Job's creation to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.bench.run.cluster_view import ClusterView, Failure, Stage, look
from fleet.bench.run.display import State
from fleet.bench.run.fetching import progress_of
from fleet.bench.run.progress_words import state_of
from fleet.clients.errors import LiveError

if TYPE_CHECKING:
    from fleet.bench.run.launch import Launched
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.storage import Bucket

POLL_SECONDS: Final = 4.0
"""Between two readings. Assumed: two kubectl calls take a third of a second of CPU, and pods report every 10 s."""
PATIENCE_SECONDS: Final = 15 * 60.0
"""How long cluster or bucket may be unreachable before watching ends; the Job continues. Assumed: a closed laptop, a changed VPN."""
FINAL: Final = frozenset({"not found", "missing program", "forbidden"})
"""Reasons that a retry does not change. Not `refused`: a request that worked a moment ago is right, and a control plane reports its
own problems in many ways."""
AWAY: Final = frozenset({"unreachable", "timeout", "credentials"})
"""Network or login lost; both can return."""
_WORDS: Final[Mapping[Stage, str]] = {
    "no pods": "waiting for the Job's pods",
    "unscheduled": "waiting for benchmark machines",
    "starting": "pods are starting",
    "preparing": "pods download tokenizer and dataset",
    "running": "pods are running",
    "ended": "pods have ended",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a launch ended."""

    failed: str
    """Empty when it did not fail."""
    failures: tuple[Failure, ...]
    last: State | None
    """Last state seen while it ran; None: it never ran."""


def watch(
    kubectl: Kubectl,
    bucket: Bucket,
    launched: Launched,
    show: Callable[[State], None],
    *,
    poll_seconds: float = POLL_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Ended:
    """Return when the Job has ended. Raises LiveError when it is gone, or nothing answers for too long."""
    answered = time.monotonic()
    failures: tuple[Failure, ...] = ()
    last: State | None = None
    while True:
        try:
            view = look(kubectl, launched.job)
            failures = view.failures or failures
            if view.gone or view.ended is not None:
                break
            state = _state(view, bucket, launched)
            show(state)
            # A Job past its deadline loses its pods first: the reason is what they waited for.
            last = state if view.stage != "no pods" else last or state
            answered = time.monotonic()
        except LiveError as error:
            silent = time.monotonic() - answered > patience_seconds
            if silent or error.reason in FINAL:
                since = f" No answer for {patience_seconds / 60:.0f} minutes." if silent else ""
                raise LiveError(
                    f"{error}.{since} {launched.job} continues in the cluster. When it has ended, run: {launched.how_to_fetch()}",
                    reason=error.reason,
                ) from None
            show(State("no answer, trying again", str(error)))
        time.sleep(poll_seconds)
    if view.ended is None:
        raise LiveError(
            f"Job {launched.job} no longer exists: it was deleted, or ended more than a day ago. Stored results remain: "
            f"{launched.how_to_fetch()}",
            reason="not found",
        )
    return Ended("" if view.ended == "Complete" else view.ended.removeprefix("Failed: "), failures, last)


def patiently(
    action: Callable[[], None],
    show: Callable[[State], None],
    *,
    poll_seconds: float = POLL_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Call it, and retry while network or login are lost. Raises LiveError after `patience_seconds`, and immediately for other reasons."""
    began = time.monotonic()
    while True:
        try:
            return action()
        except LiveError as error:
            if error.reason not in AWAY or time.monotonic() - began > patience_seconds:
                raise
            show(State("no answer, trying again", str(error)))
        time.sleep(poll_seconds)


def _state(view: ClusterView, bucket: Bucket, launched: Launched) -> State:
    if view.stage not in ("running", "ended"):
        return State(_WORDS[view.stage], view.why)
    return state_of(progress_of(bucket, launched.measurement)) or State(_WORDS[view.stage])
