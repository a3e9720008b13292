"""The pod's progress as a state, and how states are shown."""

from __future__ import annotations

import io
from typing import Any

import pytest

from fleet.bench.run.progress_words import state_of
from fleet.jobs.display import PLAIN_EVERY_SECONDS, Display, LiveDisplay, State, shown


def pod(state: str, **told: Any) -> dict[str, Any]:
    return {"schema": 1, "state": state, "runs": 6, "run": 2, "repeat": 1, "connections": 2000, **told}


def test_the_pods_report_is_a_state() -> None:
    assert state_of(None) is None
    assert state_of({"schema": 1}) is None
    state = state_of(pod("running", requests=800, requests_done=250))
    assert state == State("running", "run 2 of 6 with 2,000 requests in flight", done=250, of=800)
    assert state.counted() == "250 of 800 requests (31%)"
    preparing = state_of(pod("preparing", clients=8, ready=5))
    assert preparing is not None
    assert "5 of 8 clients" in preparing.detail
    assert state_of(pod("failed", problem="client 3: exit code 1")) == State("the pod failed", "client 3: exit code 1")
    assert state_of({"state": "waiting for the server"}) == State("waiting for the servers to answer", "")


def test_plain_lines_tell_what_is_new_and_count_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("fleet.jobs.display.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    display = Display(stream)
    display.state(State("waiting for a machine", "FailedScheduling: 0/3 nodes\n are available"))
    for done in (10, 20, 30):
        now[0] += PLAIN_EVERY_SECONDS / 2
        display.state(State("running", "run 1 of 1", done=done, of=100))
    lines = stream.getvalue().splitlines()
    assert lines == [
        "[  0:00] waiting for a machine: FailedScheduling: 0/3 nodes are available",
        "[  0:15] running: run 1 of 1, 10 of 100 requests (10%)",
        "[  0:45] running: run 1 of 1, 30 of 100 requests (30%)",
    ]


def test_a_command_in_a_note_is_never_cut() -> None:
    command = "kubectl --namespace vllm delete jobs --selector vllm-fleet/launch=0123456789abcdef"
    stream = io.StringIO()
    with shown(stream, live=True, width=60) as display:
        display.state(State("running", "with words " * 12, done=5, of=20))
        display.note(f"It may be there all the same. Remove it: {command}")
    assert command in stream.getvalue()


def test_a_live_line_is_drawn_and_taken_away() -> None:
    stream = io.StringIO()
    with shown(stream, live=True, width=100) as display:
        assert isinstance(display, LiveDisplay)
        display.state(State("running", "run 1 of 3", done=5_000_000, of=20_000_000, unit="bytes"))
        display.line.refresh()
        display.note("no GPU samples")
    text = stream.getvalue()
    assert "5 of 20 MB (25%)" in text
    assert "no GPU samples" in text
