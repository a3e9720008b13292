"""The program of the liveness probe, against a real HTTP server: when it restarts a server, and above all when it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.simulators.local_server import Answer, Request, served
from tests.support.rows import each_row
from workloads.pod_programs import python_program
from workloads.server import check_heartbeat as program

CODE = python_program("server/check_heartbeat.py")
LIMIT = 190.0


@dataclass
class Rank:
    """What one engine says of itself."""

    running: int = 0
    waiting: int = 0
    cache: float = 0.0
    steps: int = 0
    awake: bool = True


@dataclass
class Vllm:
    """vLLM's web server, as far as a probe sees it."""

    ranks: dict[str, Rank] = field(default_factory=lambda: {"0": Rank()})
    health: int | None = 200
    metrics: bool = True
    paused: bool | None = None
    """None: a server without the endpoint, which is the normal one."""
    trickles: bool = False
    """Whether /metrics sends its head and nothing more."""
    over: threading.Event = field(default_factory=threading.Event)
    host: str = ""

    def answer(self, request: Request) -> Answer | None:
        if request.path == "/health":
            return None if self.health is None else Answer(self.health, b"")
        if request.path == "/is_paused" and self.paused is not None:
            return Answer.of_json(200, {"is_paused": self.paused})
        if request.path == "/metrics" and self.trickles:
            return Answer(200, b"vllm:", {"Content-Length": "100"})
        if request.path == "/metrics":
            return Answer(200, self.page().encode()) if self.metrics else None
        return Answer(404, b"{}")

    def page(self) -> str:
        lines = ["# HELP vllm:num_requests_running Number of requests in model execution batches.", "vllm:other 7.0"]
        for label, rank in self.ranks.items():
            labels = f'engine="{label}",model_name="a {{model}} of engine=9"'
            lines += [
                f"vllm:num_requests_running{{{labels}}} {float(rank.running)}",
                f"vllm:num_requests_waiting{{{labels}}} {float(rank.waiting)}",
                f"vllm:kv_cache_usage_perc{{{labels}}} {rank.cache!r}",
                f"vllm:iteration_tokens_total_count{{{labels}}} {float(rank.steps)}",
                f'vllm:iteration_tokens_total_bucket{{{labels},le="1.0"}} 0.0',
                # The web server counts on, whatever the engines do.
                f'vllm:admission_rejections_total{{{labels},reason="full"}} {float(id(request_number()))}',
            ]
            for state, value in (("awake", rank.awake), ("weights_offloaded", False), ("discard_all", not rank.awake)):
                lines.append(f'vllm:engine_sleep_state{{{labels},sleep_state="{state}"}} {float(value)}')
        return "\n".join([*lines, 'http_requests_total{handler="/health"} 5.0', ""])


def request_number() -> object:
    """Something else at every request."""
    return object()


@contextmanager
def vllm(**fields: Any) -> Iterator[Vllm]:
    server = Vllm(**fields)
    with served(server.answer, keep_alive=True) as port:
        server.host = f"127.0.0.1:{port}"
        yield server


Moment = tuple[float, Mapping[str, Any]]
"""Seconds, and what is true of the server from then on: fields of `Vllm`, or of a rank by its label."""


def busy(**fields: Any) -> dict[str, Any]:
    return {"0": {"running": 3, "steps": 50, "cache": 0.5, **fields}}


def every(seconds: range, change: Any) -> list[Moment]:
    return [(float(at), change(at)) for at in seconds]


STANDS: list[Moment] = [(0.0, busy()), *every(range(10, 180, 40), lambda _: {})]
STORIES: dict[str, tuple[list[Moment], bool]] = {
    "hung with requests": ([*STANDS, (190.0, {})], True),
    "hung for less": ([*STANDS, (189.0, {})], False),
    "hung, and then a step": ([*STANDS, (185.0, busy(steps=51)), (374.0, {})], False),
    "hung again after a step": ([*STANDS, (185.0, busy(steps=51)), (376.0, {})], True),
    "continued after it failed": ([*STANDS, (200.0, {}), (210.0, busy(steps=51))], False),
    # Others' false restarts: vllm#45453, sparkring#231: a prompt read in chunks returns no token for minutes.
    "one prompt of ten minutes": (
        every(range(0, 600, 100), lambda at: busy(running=1, cache=at / 1000, steps=7)),
        False,
    ),
    # gonka#1421, llm-engine#255, llm-d-benchmark#1734: saturated, with hundreds waiting.
    "saturated": (every(range(0, 900, 100), lambda at: busy(running=256, waiting=700, cache=1.0, steps=at)), False),
    # dynamo#14735: a kernel is compiled for a new shape, 30 to 70 s.
    "a kernel compiled in service": (
        [(0.0, busy()), *every(range(10, 80, 20), lambda _: {}), (80.0, busy(steps=51))],
        False,
    ),
    "no metrics for ten minutes": ([(0.0, busy()), *every(range(10, 610, 150), lambda _: {"metrics": False})], False),
    "metrics with a step after ten minutes": (
        [(0.0, busy()), (10.0, {"metrics": False}), (610.0, {"metrics": True, **busy(steps=51)})],
        False,
    ),
    "metrics without a step after ten minutes": (
        [(0.0, busy()), (10.0, {"metrics": False}), (610.0, {"metrics": True})],
        True,
    ),
    "health unanswered": ([(0.0, {"health": None})], True),
    "an engine died": ([(0.0, {"health": 503})], True),
    "health back": ([(0.0, {"health": 503}), (10.0, {"health": 200})], False),
    "idle for a night": (every(range(0, 30_000, 6_000), lambda _: {}), False),
    "a request after an idle night": ([(0.0, {}), (30_000.0, busy()), (30_100.0, {})], False),
    "waiting only, for a cache from elsewhere": ([(0.0, busy(running=0, waiting=9)), (600.0, {})], False),
    "asleep": ([(0.0, busy(awake=False)), (600.0, {})], False),
    "awake again": ([(0.0, busy(awake=False)), (600.0, busy()), (780.0, {})], False),
    "paused": ([(0.0, {**busy(), "paused": True}), (600.0, {})], False),
    "resumed": ([(0.0, {**busy(), "paused": True}), (600.0, {}), (610.0, {"paused": False}), (790.0, {})], False),
    "resumed, and hung": (
        [(0.0, {**busy(), "paused": True}), (600.0, {}), (610.0, {"paused": False}), (810.0, {})],
        True,
    ),
    "not paused": ([(0.0, {**busy(), "paused": False}), (600.0, {})], True),
    "one of eight ranks": (
        every(
            range(0, 201, 40),
            lambda at: {str(rank): {"running": 3, "steps": at if rank != 5 else 8} for rank in range(8)},
        ),
        True,
    ),
    # vllm#45453: an idle rank must not hide it, nor a busy one.
    "a hung rank beside an idle one": ([(0.0, {"0": {"running": 2, "steps": 4}, "1": {}}), (200.0, {})], True),
    "an idle rank beside a busy one": (
        every(range(0, 600, 100), lambda at: {"0": {"running": 2, "steps": at}, "1": {"steps": 3}}),
        False,
    ),
    "counters begin again": ([*STANDS, (180.0, busy(running=1, steps=0, cache=0.0)), (360.0, {})], False),
    "no engine on the page": ([(0.0, {"ranks": {}}), (600.0, {})], False),
}


def played(server: Vllm, state: Path, story: list[Moment]) -> list[str]:
    said = []
    for seconds, change in story:
        for name, value in change.items():
            if isinstance(value, dict) and name != "ranks":
                server.ranks[name] = Rank(**value)
            else:
                setattr(server, name, value)
        said.append(program.probe(server.host, state, LIMIT, 1_000.0 + seconds))
    return said


@each_row("name", STORIES)
def test_only_an_engine_with_requests_and_without_steps_restarts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, fails = STORIES[name]
    monkeypatch.setattr(program, "HEALTH_SECONDS", 5.0)
    with vllm() as server:
        said = played(server, tmp_path / f"{name}.json", story)
    assert bool(said[-1]) == fails, said
    assert not any(said[:-2]), said


def test_the_stalled_rank_is_named(tmp_path: Path) -> None:
    with vllm() as server:
        said = played(server, tmp_path / "state", STORIES["one of eight ranks"][0])
    assert said[-1].startswith("engine 5: ")


def test_a_page_that_never_ends_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "METRICS_SECONDS", 0.2)
    with vllm(ranks={"0": Rank(running=3)}) as server:
        assert program.probe(server.host, tmp_path / "state", LIMIT, 0.0) == ""
        server.trickles = True
        assert program.probe(server.host, tmp_path / "state", LIMIT, 600.0) == ""


@each_row(
    "kept",
    [
        "",
        "{",
        "[]",
        "null",
        '{"container": 1}',
        "SAME {}",
        'SAME {"0": 3}',
        'SAME {"0": {"since": "x"}}',
        'SAME {"0": {"since": 9e9}}',
    ],
)
def test_a_state_that_cannot_be_read_is_none(kept: str, tmp_path: Path) -> None:
    text = kept
    if kept.startswith("SAME"):
        text = json.dumps({"container": program.container(), "engines": json.loads(kept.removeprefix("SAME"))})
    (tmp_path / "state").write_text(text)
    with vllm(ranks={"0": Rank(running=3)}) as server:
        assert program.probe(server.host, tmp_path / "state", LIMIT, 600.0) == ""
        assert program.probe(server.host, tmp_path / "state", LIMIT, 600.0 + LIMIT) != ""


def test_a_state_that_cannot_be_kept_is_no_verdict(tmp_path: Path) -> None:
    with vllm(ranks={"0": Rank(running=3)}) as server:
        for seconds in (0.0, 600.0):
            assert program.probe(server.host, tmp_path / "no" / "state", LIMIT, seconds) == ""


# As the pod runs it


def run(host: str, state: Path, seconds: float = 0.0) -> subprocess.CompletedProcess[str]:
    arguments = [f"--server={host}", f"--stalled-seconds={seconds}", f"--state={state}"]
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", CODE, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_kubelet_sees_a_code_and_a_reason(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with vllm(ranks={"0": Rank(running=3)}) as server:
        known = run(server.host, state, 3600)
        assert (known.returncode, known.stdout, known.stderr) == (0, "", "")
        hung = run(server.host, state)
        assert hung.returncode == 1
        assert "engine 0" in hung.stdout
        server.ranks["0"].running = 0
        assert run(server.host, state, 3600).returncode == 0
    gone = run(server.host, state, 3600)
    assert gone.returncode == 1
    assert "/health" in gone.stdout


def test_a_new_container_does_not_read_what_an_earlier_one_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with vllm(ranks={"0": Rank(running=3)}) as server:
        run(server.host, state, 3600)
        kept = json.loads(state.read_text())
        assert kept["container"]
        old = {**kept, "container": "12", "engines": {"0": {**kept["engines"]["0"], "since": 0.0}}}
        state.write_text(json.dumps(old))
        assert run(server.host, state, 0.5).returncode == 0
        state.write_text(json.dumps({**old, "container": kept["container"]}))
        assert run(server.host, state, 0.5).returncode == 1
