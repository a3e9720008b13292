"""Watch a Job from its creation to its end, through lost networks and logins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.clients.errors import LiveError
from fleet.jobs.cluster_view import ClusterView, Failure, look
from fleet.jobs.display import State

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl

POLL_SECONDS: Final = 4.0
"""Between two readings. Assumed: two kubectl calls take a third of a second of CPU, and pods report every 10 s."""
PATIENCE_SECONDS: Final = 15 * 60.0
"""How long cluster or bucket may be unreachable before watching ends; the Job continues. Assumed: a closed laptop, a changed VPN."""
FINAL: Final = frozenset({"not found", "missing program", "forbidden"})
"""Reasons that a retry does not change. Not `refused`: a request that worked a moment ago is right, and a control plane reports its
own problems in many ways."""
AWAY: Final = frozenset({"unreachable", "timeout", "credentials"})
"""Network or login lost; both can return."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a Job ended."""

    failed: str
    """Empty when it did not fail."""
    failures: tuple[Failure, ...]
    last: State | None
    """Last state seen while it ran; None: it never ran."""


def watch(
    kubectl: Kubectl,
    job: str,
    state_of: Callable[[ClusterView], State],
    show: Callable[[State], None],
    *,
    later: str,
    poll_seconds: float = POLL_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Ended:
    """Return when the Job has ended. Raises LiveError when it is gone, or nothing answers for too long.

    `state_of` may raise LiveError, too. `later`: the command for its results.
    """
    answered = time.monotonic()
    failures: tuple[Failure, ...] = ()
    last: State | None = None
    while True:
        try:
            view = look(kubectl, job)
            failures = view.failures or failures
            if view.gone or view.ended is not None:
                break
            state = state_of(view)
            show(state)
            # A Job past its deadline loses its pods first: the reason is what they waited for.
            last = state if view.stage != "no pods" else last or state
            answered = time.monotonic()
        except LiveError as error:
            silent = time.monotonic() - answered > patience_seconds
            if silent or error.reason in FINAL:
                since = f" No answer for {patience_seconds / 60:.0f} minutes." if silent else ""
                raise LiveError(
                    f"{error}.{since} {job} continues in the cluster. When it has ended, run: {later}",
                    reason=error.reason,
                ) from None
            show(State("no answer, trying again", str(error)))
        time.sleep(poll_seconds)
    if view.ended is None:
        raise LiveError(
            f"Job {job} no longer exists: it was deleted, or ended more than a day ago. Stored results remain: {later}",
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
