"""Progress reports of the benchmark's pods as one state. Source of the fields: workloads/benchmark/pods/progress.py,
play_run.py and launch_clients.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleet.jobs.display import State

_ORDER: Final = (
    "waiting for the server",
    "waiting for the other pods",
    "between runs",
    "preparing",
    "at the barrier",
    "running",
    "failing",
    "waiting for idle servers",
    "storing",
    "finished",
)
_WORDS: Final[Mapping[str, str]] = {
    "waiting for the server": "waiting for the servers to answer",
    "waiting for the other pods": "waiting for all benchmark pods",
    "between runs": "between two runs",
    "preparing": "clients draw their prompts and warm up",
    "at the barrier": "waiting for the common start",
    "running": "running",
    "failing": "a run failed",
    "waiting for idle servers": "waiting until the servers are idle",
    "storing": "storing results",
    "finished": "finished",
}
_BAD: Final = ("failed", "stopped")
ENDED: Final = (*_BAD, "finished")
"""States of a pod that has ended."""


def state_of(pods: Sequence[Mapping[str, Any]]) -> State | None:
    """The state of the pod furthest behind, with all requests; None before the first report."""
    told = [pod for pod in pods if isinstance(pod.get("state"), str)]
    if not told:
        return None
    bad = next((pod for pod in told if pod["state"] in _BAD), None)
    if bad is not None:
        return State(f"pod {bad.get('pod')} {bad['state']}", str(bad.get("problem") or ""))
    behind = min(told, key=_place)
    state = behind["state"]
    detail = _run(behind)
    if state == "waiting for the other pods":
        here = sum(pod["state"] != "waiting for the server" for pod in told)
        detail = f"{here} of {behind.get('pods')} are here"
    elif state in ("preparing", "at the barrier"):
        clients = [pod.get("clients") or {} for pod in told]
        ready = sum(int(client.get("ready", 0)) for client in clients)
        detail += f", {ready} of {sum(int(client.get('all', 0)) for client in clients)} clients are ready"
    if state != "running":
        return State(_WORDS.get(state, state), detail)
    same = [pod for pod in told if pod.get("run") == behind.get("run")]
    done = [pod.get("requests_done") for pod in same]
    counted = sum(number for number in done if isinstance(number, int))
    return State(
        _WORDS[state],
        detail,
        done=counted if any(isinstance(number, int) for number in done) else None,
        of=sum(int(pod.get("requests") or 0) for pod in same),
    )


def _place(pod: Mapping[str, Any]) -> tuple[int, int]:
    state = pod["state"]
    # A pod between two runs counts as at the next one.
    run = int(pod.get("runs_done") or 0) if state != "finished" else int(pod.get("runs") or 0)
    return run, _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _run(pod: Mapping[str, Any]) -> str:
    if not pod.get("run"):
        return ""
    load = f" with {pod['connections']:,} requests in flight" if isinstance(pod.get("connections"), int) else ""
    repeat = f", repeat {int(pod['repeat']) + 1}" if isinstance(pod.get("repeat"), int) else ""
    return f"run {pod['run']} of {pod.get('runs')}{load}{repeat}"
