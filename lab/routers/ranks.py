"""The model servers behind a router: `routerload ranks` (lab/routers/go), eight servers of eight ranks."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.control_plane.process import Process
from lab.results.result import RehearsalError

SERVERS: Final = 8
RANKS: Final = 8
FIRST_PORT: Final = 8000
_CONTROL: Final = "127.0.0.1:7999"
_START_SECONDS: Final = 10.0


def addresses() -> tuple[str, ...]:
    """Host and port of every rank, server by server."""
    return tuple(f"127.0.1.{server + 1}:{FIRST_PORT + rank}" for server in range(SERVERS) for rank in range(RANKS))


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """How fast the ranks answer. A step gives each running request a token."""

    step_ms: float
    """Time of a step without requests."""
    each_ms: float = 0.0
    """Time that each running request adds."""
    block_ms: float = 0.0
    """Time that each block of a new prompt adds, unless the rank's cache has it."""
    blocks: int = 4096
    """Blocks of 64 bytes that a rank's prefix cache keeps, the least recently used leaving first."""


class Ranks:
    """Running ranks. `counts` is their own account since `reset`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def reset(self) -> None:
        """Counters from zero; caches stay."""
        _ask("reset", post=True)

    def counts(self) -> Mapping[str, Any]:
        """Counts and balance of all ranks."""
        self._process.require_running()
        counts: Mapping[str, Any] = json.loads(_ask("told"))
        return counts


@contextmanager
def running(program: Path, pacing: Pacing, folder: Path) -> Iterator[Ranks]:
    """Eight servers of eight ranks."""
    command: list[str | Path] = [
        program,
        "ranks",
        f"-pods={SERVERS}",
        f"-ranks={RANKS}",
        f"-port={FIRST_PORT}",
        f"-step={pacing.step_ms}ms",
        f"-each={pacing.each_ms}ms",
        f"-block={pacing.block_ms}ms",
        f"-blocks={pacing.blocks}",
        f"-control={_CONTROL}",
    ]
    process = Process("ranks", command, folder=folder, log=folder / "ranks.log")
    try:
        _wait(process)
        yield Ranks(process)
    finally:
        process.stop()


def _wait(process: Process) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.require_running()
        try:
            _ask("told")
        except OSError:
            if time.monotonic() > deadline:
                raise RehearsalError("the ranks did not answer in time; the machine may be too busy") from None
            time.sleep(0.05)
        else:
            return


def _ask(what: str, *, post: bool = False) -> bytes:
    request = urllib.request.Request(f"http://{_CONTROL}/{what}", method="POST" if post else "GET")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_START_SECONDS) as answer:
        content: bytes = answer.read()
    return content
