"""The model servers behind a router: `routerload ranks` (lab/control_plane/go/routers), eight pods of eight ranks."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.control_plane.process import Process
from lab.results.result import RehearsalError
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Node, Pace

PODS: Final = 8
RANKS: Final = 8
FIRST_PORT: Final = 8000
API: Final = "127.0.0.1:7998"
"""Address at which the pods are listed as by Kubernetes' API, for the picker."""
_CONTROL_PORT: Final = 7999
_START_SECONDS: Final = 10.0


def addresses(pods: int = PODS) -> tuple[str, ...]:
    """Host and port of every rank, pod by pod."""
    return tuple(f"127.0.1.{pod + 1}:{FIRST_PORT + rank}" for pod in range(pods) for rank in range(RANKS))


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """How fast the ranks answer."""

    step_ms: float
    """Time of a step."""
    each_ms: float = 0.0
    """Time that each running request adds."""
    blocks: int = 4096
    """Blocks of 64 bytes that a rank's prefix cache keeps."""


class Ranks:
    """Running ranks. `told` is their own account since `reset`."""

    def __init__(self, processes: tuple[Process, ...]) -> None:
        self._processes = processes

    def reset(self) -> None:
        """Counters from zero."""
        for number in range(len(self._processes)):
            _ask(number, "reset", post=True)

    def forget(self) -> None:
        """Empty prefix caches."""
        for number in range(len(self._processes)):
            _ask(number, "forget", post=True)

    def told(self) -> Mapping[str, Any]:
        """Counts and balance of the first process, which has all pods but those in `apart`."""
        self._processes[0].require_running()
        told: Mapping[str, Any] = json.loads(_ask(0, "told"))
        return told

    def kill_last(self) -> float:
        """Kill the process of the last pod; returns the time since 1970."""
        self._processes[-1].stop()
        return time.time()


@contextmanager
def running(program: Path, pacing: Pacing, folder: Path, *, last_apart: bool = False) -> Iterator[Ranks]:
    """Eight pods of eight ranks. `last_apart`: the last pod is a process of its own, which can die."""
    page = folder / "metrics.txt"
    if not page.exists():
        page.write_text(_metrics_page(), encoding="utf-8")
    groups = [(0, PODS - 1), (PODS - 1, 1)] if last_apart else [(0, PODS)]
    with ExitStack() as stack:
        processes = []
        for number, (first, pods) in enumerate(groups):
            command: list[str | Path] = [
                program,
                "ranks",
                f"-first={first}",
                f"-pods={pods}",
                f"-ranks={RANKS}",
                f"-port={FIRST_PORT}",
                f"-step={pacing.step_ms}ms",
                f"-each={pacing.each_ms}ms",
                f"-blocks={pacing.blocks}",
                f"-control=127.0.0.1:{_CONTROL_PORT + 2 * number}",
                f"-metrics={page}",
                *([f"-api={API}"] if not last_apart else []),
            ]
            process = Process("ranks", command, folder=folder, log=folder / f"ranks-{number}.log")
            stack.callback(process.stop)
            processes.append(process)
            _wait(process, number)
        yield Ranks(tuple(processes))


def _wait(process: Process, number: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.require_running()
        try:
            _ask(number, "told")
        except OSError:
            if time.monotonic() > deadline:
                raise RehearsalError("the ranks did not answer in time; the machine may be too busy") from None
            time.sleep(0.05)
        else:
            return


def _ask(number: int, what: str, *, post: bool = False) -> bytes:
    address = f"http://127.0.0.1:{_CONTROL_PORT + 2 * number}/{what}"
    request = urllib.request.Request(address, method="POST" if post else "GET")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_START_SECONDS) as answer:
        said: bytes = answer.read()
    return said


def _metrics_page() -> str:
    """Series of an engine beside the gauges that a rank says itself: what a picker has to read past."""
    node = Node(model="measured/model", ranks=1, pace=Pace(fixed_s=0.05))
    with serving(lambda: EngineServer(node)) as server:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{server.url}/metrics", timeout=_START_SECONDS) as answer:
            page = answer.read().decode()
    own = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    return "".join(
        line
        for line in page.splitlines(keepends=True)
        if not line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(own)
    )
