"""The pods' progress as one state, and how states are shown."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.run.progress_words import _ORDER, _WORDS, state_of
from fleet.jobs.display import PLAIN_EVERY_SECONDS, Display, LiveDisplay, State, shown


def pod(number: int, state: str, **told: Any) -> dict[str, Any]:
    run = {"run": 2, "repeat": 1, "connections": 2000} if state not in _ORDER[:2] else {}
    return {"schema": 1, "pod": number, "pods": 2, "state": state, "runs": 6, "runs_done": 1, **run, **told}


def test_nobody_has_told_anything() -> None:
    assert state_of([]) is None
    assert state_of([{"schema": 1}]) is None


def test_running_counts_everybodys_requests() -> None:
    state = state_of(
        [
            pod(0, "running", requests=400, requests_done=100),
            pod(1, "running", requests=400, requests_done=150),
        ]
    )
    assert state == State("running", "run 2 of 6 with 2,000 requests in flight, repeat 2", done=250, of=800)
    assert state.counted() == "250 of 800 requests (31%)"


def test_a_pod_that_cannot_count_is_left_out_of_the_count() -> None:
    state = state_of([pod(0, "running", requests=400, requests_done=None)])
    assert state is not None
    assert state.counted() == ""


def test_the_pod_that_is_furthest_behind_decides() -> None:
    clients = {"all": 4, "ready": 1}
    state = state_of([pod(0, "at the barrier", clients={"all": 4, "ready": 4}), pod(1, "preparing", clients=clients)])
    assert state is not None
    assert state.phase == _WORDS["preparing"]
    assert "5 of 8 clients" in state.detail
    waiting = state_of(
        [pod(0, "waiting for the other pods", runs_done=0), pod(1, "waiting for the server", runs_done=0)]
    )
    assert waiting is not None
    assert waiting.phase == _WORDS["waiting for the server"]


def test_a_failed_pod_is_told_with_its_problem() -> None:
    state = state_of([pod(0, "running"), pod(1, "failed", problem="client 3: exit code 1")])
    assert state == State("pod 1 failed", "client 3: exit code 1")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"state": st.sampled_from([*_ORDER, "failed", "stopped", "something new"])},
            optional={
                "runs_done": st.none() | st.integers(0, 5),
                "run": st.none() | st.integers(1, 6),
                "clients": st.none() | st.just({"all": 3}),
                "requests": st.none() | st.integers(0, 9),
                "requests_done": st.none() | st.integers(0, 9),
            },
        ),
        max_size=4,
    )
)
def test_whatever_pods_tell_there_is_a_state(pods: list[dict[str, Any]]) -> None:
    state = state_of(pods)
    assert (state is None) == (not pods)
    if state is not None:
        assert state.phase
        state.counted()


def test_plain_lines_tell_what_is_new_and_count_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("fleet.jobs.display.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    display = Display(stream)
    display.state(State("waiting for benchmark machines", "FailedScheduling: 0/3 nodes\n are available"))
    for done in (10, 20, 30):
        now[0] += PLAIN_EVERY_SECONDS / 2
        display.state(State("running", "run 1 of 1", done=done, of=100))
    lines = stream.getvalue().splitlines()
    assert lines == [
        "[  0:00] waiting for benchmark machines: FailedScheduling: 0/3 nodes are available",
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
