"""The progress report of the benchmark's pod as a state. Source of the fields: workloads/benchmark/pods/launch_clients.py,
play_run.py and client_processes.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleet.jobs.display import State

_WORDS: Final[Mapping[str, str]] = {
    "waiting for the server": "waiting for the servers to answer",
    "preparing": "clients draw their prompts and warm up",
    "waiting for idle servers": "waiting until the servers are idle",
    "storing": "storing results",
}
_BAD: Final = ("failed", "stopped")
ENDED: Final = (*_BAD, "finished")
"""States of a pod that has ended."""


def state_of(told: Mapping[str, Any] | None) -> State | None:
    """The state of the pod; None before its first report."""
    state = None if told is None else told.get("state")
    if told is None or not isinstance(state, str):
        return None
    if state in _BAD:
        return State(f"the pod {state}", str(told.get("problem") or ""))
    detail = ""
    if told.get("run"):
        detail = f"run {told['run']} of {told.get('runs')} with {told.get('connections'):,} requests in flight"
    if state == "preparing":
        detail += f", {told.get('ready', 0)} of {told.get('clients', 0)} clients are ready"
    if state != "running":
        return State(_WORDS.get(state, state), detail)
    return State(state, detail, done=told.get("requests_done"), of=told.get("requests"))
