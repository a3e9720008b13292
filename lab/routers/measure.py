"""The measurements: each starts ranks and routers, sends requests, and returns figures."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.results.result import RehearsalError
from lab.routers import programs, ranks
from lab.routers.programs import Programs, Router, Running
from lab.routers.ranks import Pacing, Ranks

Progress = Callable[[str], None]
Figures = dict[str, Any]

ROUNDS: Final = 3
SHORT_PROMPT: Final = 3_000
"""Bytes: about the article's mean prompt of 768 tokens."""
LONG_PROMPT: Final = 40_000
KIB: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run of clients."""

    connections: int
    lengths: str = "1"
    """Tokens of an answer, with shares."""
    prompt_bytes: int = SHORT_PROMPT
    seconds: float = 4.0
    warm: float = 1.0
    ramp: float = 0.5
    groups: int = 0
    prefix_bytes: int = 0
    once: bool = False

    def options(self) -> list[str]:
        """For `routerload clients`."""
        return [
            f"-connections={self.connections}",
            f"-lengths={self.lengths}",
            f"-prompt-bytes={self.prompt_bytes}",
            f"-seconds={self.seconds}",
            f"-warm={self.warm}",
            f"-ramp={self.ramp}",
            f"-groups={self.groups}",
            f"-prefix-bytes={self.prefix_bytes}",
            f"-once={str(self.once).lower()}",
        ]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run: what clients saw, and processor time of all meanwhile."""

    clients: Mapping[str, Any]
    router_cpu: float
    ranks_cpu: float
    seconds: float
    """Of the processor time: with the time before the measured seconds."""
    all_requests: int
    """Requests of the processor time."""
    all_chunks: int


class Bench:
    """Programs and a folder for their files."""

    def __init__(self, found: Programs, folder: Path, progress: Progress) -> None:
        self.programs, self.folder, self.progress = found, folder, progress

    @contextmanager
    def router(self, router: Router, *, processes: int = 1) -> Iterator[Running]:
        """A router before running ranks."""
        with programs.running(router, self.programs, self.folder, processes=processes) as running:
            yield running

    def ranks(self, pacing: Pacing, *, last_apart: bool = False) -> Any:
        """All ranks."""
        return ranks.running(self.programs.routerload, pacing, self.folder, last_apart=last_apart)

    def run(self, running: Running, all_ranks: Ranks, asked: Asked) -> Seen:
        """One run to its end."""
        client = self.start(running, asked, all_ranks)
        return client.end()

    def start(self, running: Running, asked: Asked, all_ranks: Ranks) -> Client:
        """Start clients."""
        return Client(self.programs.routerload, running, asked, all_ranks)


class Client:
    """Running clients."""

    def __init__(self, program: Path, running: Running, asked: Asked, all_ranks: Ranks) -> None:
        self._running, self._asked, self._ranks = running, asked, all_ranks
        all_ranks.reset()
        self._began = time.monotonic()
        self._cpu = running.cpu_seconds()
        self._ranks_cpu = all_ranks.told()["cpu_seconds"]
        self._process = subprocess.Popen(
            [program, "clients", *running.clients, *asked.options()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> Seen:
        """Wait for the end. Raises RehearsalError if the clients failed."""
        limit = 60 + self._asked.seconds + self._asked.warm + (120 if self._asked.once else 0)
        try:
            out, err = self._process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise RehearsalError(f"clients of {self._running.router.id} did not end in {limit:.0f} s") from None
        if self._process.returncode:
            raise RehearsalError(f"clients of {self._running.router.id} failed: {err.strip()[:400]}")
        told = self._ranks.told()
        return Seen(
            clients=json.loads(out),
            router_cpu=self._running.cpu_seconds() - self._cpu,
            ranks_cpu=told["cpu_seconds"] - self._ranks_cpu,
            seconds=time.monotonic() - self._began,
            all_requests=told["accepted"],
            all_chunks=told["chunks"],
        )


COST: Final = (
    programs.DIRECT,
    programs.LEASTCONN,
    programs.POWER_OF_TWO,
    programs.CACHE_AWARE,
    programs.CACHE_AWARE_OF_PODS,
    programs.PICKER,
    programs.PICKER_AT_RANDOM,
)
_IDLE_SECONDS: Final = 2.0
_REQUESTS: Final = Asked(connections=16, seconds=3)
_PROMPTS: Final = Asked(connections=8, prompt_bytes=LONG_PROMPT, seconds=3)
_CHUNKS: Final = Asked(connections=200, lengths="400", seconds=4)


def cost(bench: Bench, rounds: int = ROUNDS) -> Figures:
    """Processor time of a request, of a KiB of prompt and of a chunk; time that a router adds. Rounds are interleaved."""
    found: dict[str, list[Figures]] = {router.id: [] for router in COST}
    for number in range(rounds):
        for router in COST:
            bench.progress(f"cost, round {number + 1} of {rounds}: {router.id}")
            found[router.id].append(_cost_once(bench, router))
    direct = found[programs.DIRECT.id]
    for router in COST:
        for mine, base in zip(found[router.id], direct, strict=True):
            for name in ("chunk_p50_us", "chunk_p99_us", "first_p50_us", "first_p99_us"):
                mine[f"{name}_ratio"] = mine[name] / base[name]
    return {name: _middle(rows) for name, rows in found.items()}


def _cost_once(bench: Bench, router: Router) -> Figures:
    with bench.ranks(Pacing(step_ms=10)) as all_ranks, bench.router(router) as running:
        time.sleep(1.0)
        before, began = running.cpu_seconds(), time.monotonic()
        time.sleep(_IDLE_SECONDS)
        idle = (running.cpu_seconds() - before) / (time.monotonic() - began)
        requests, prompts = (bench.run(running, all_ranks, asked) for asked in (_REQUESTS, _PROMPTS))
    with bench.ranks(Pacing(step_ms=50)) as all_ranks, bench.router(router) as running:
        chunks = bench.run(running, all_ranks, _CHUNKS)
    for seen in (requests, prompts, chunks):
        _no_failures(router, seen)
    per_request, per_chunk, per_kib = _parts(requests, prompts, chunks, idle)
    return {
        "idle_cores": idle,
        "cpu_us_per_request": 1e6 * per_request,
        "cpu_us_per_chunk": 1e6 * per_chunk,
        "cpu_us_per_kib": 1e6 * per_kib,
        "requests_per_s": requests.clients["requests"] / requests.clients["seconds"],
        "chunks_per_s": chunks.clients["chunks"] / chunks.clients["seconds"],
        "chunk_p50_us": chunks.clients["chunk_p50_us"],
        "chunk_p99_us": chunks.clients["chunk_p99_us"],
        "first_p50_us": requests.clients["first_p50_us"],
        "first_p99_us": requests.clients["first_p99_us"],
        "client_cores": chunks.clients["cpu_seconds"] / chunks.clients["seconds"],
        "ranks_cores": chunks.ranks_cpu / chunks.seconds,
        "router_cores": chunks.router_cpu / chunks.seconds,
    }


def _parts(requests: Seen, prompts: Seen, chunks: Seen, idle: float) -> tuple[float, float, float]:
    """Seconds of a request without prompt and chunks, of a chunk, of a KiB of prompt: three equations."""
    import numpy as np

    rows, sums = [], []
    for seen, prompt in ((requests, SHORT_PROMPT), (prompts, LONG_PROMPT), (chunks, SHORT_PROMPT)):
        rows.append([seen.all_requests, seen.all_chunks, seen.all_requests * prompt / KIB])
        sums.append(max(0.0, seen.router_cpu - idle * seen.seconds))
    per_request, per_chunk, per_kib = (float(value) for value in np.linalg.solve(np.array(rows), np.array(sums)))
    return per_request, per_chunk, per_kib


def _middle(rows: Sequence[Figures]) -> Figures:
    """Median of the rounds, with the range of what is sized from."""
    found: Figures = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        found[name] = _short(statistics.median(values))
        if name.startswith("cpu_us") or name.endswith("_ratio"):
            found[f"{name}_range"] = [_short(min(values)), _short(max(values))]
    return found


def _short(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


CHOICES: Final = (
    programs.DIRECT,
    programs.LEASTCONN,
    programs.POWER_OF_TWO,
    programs.CACHE_AWARE,
    programs.PICKER,
    programs.PICKER_AT_RANDOM,
)
_UNEVEN: Final = Asked(connections=1_024, lengths="8:0.8,128:0.2", warm=6, seconds=12, ramp=2)


def balance(bench: Bench) -> Figures:
    """Most over mean of the ranks, sampled ten times a second, while answers are of 8 or 128 tokens."""
    found: Figures = {}
    for router in CHOICES:
        bench.progress(f"balance: {router.id}")
        with bench.ranks(Pacing(step_ms=100, each_ms=3)) as all_ranks, bench.router(router) as running:
            client = bench.start(running, _UNEVEN, all_ranks)
            time.sleep(_UNEVEN.warm)
            all_ranks.reset()
            seen = client.end()
            told = all_ranks.told()
        _no_failures(router, seen)
        found[router.id] = {
            "requests_max_by_mean": _short(told["requests_max_by_mean"]),
            "tokens_max_by_mean": _short(told["tokens_max_by_mean"]),
            "tokens_per_s": _short(told["tokens"] / _UNEVEN.seconds),
            "requests_per_rank": _short(told["requests_mean"]),
        }
    return found


_SHARED: Final = Asked(connections=256, lengths="8", warm=6, seconds=10, ramp=2, groups=256, prefix_bytes=2_400)
_SHARED_BLOCKS: Final = 400
"""Blocks of a rank's cache: those of eight prompts."""


def prefixes(bench: Bench) -> Figures:
    """Share of the prompts' blocks that the ranks' caches had: 256 shared beginnings, of which a rank holds eight."""
    found: Figures = {}
    for router in CHOICES:
        bench.progress(f"prefixes: {router.id}")
        pacing = Pacing(step_ms=60, blocks=_SHARED_BLOCKS)
        with bench.ranks(pacing) as all_ranks, bench.router(router) as running:
            client = bench.start(running, _SHARED, all_ranks)
            time.sleep(_SHARED.warm)
            all_ranks.reset()
            seen = client.end()
            told = all_ranks.told()
        _no_failures(router, seen)
        found[router.id] = {
            "hit_share": _short(told["prompt_blocks_hit"] / max(1, told["prompt_blocks"])),
            "requests_per_s": _short(seen.clients["requests"] / seen.clients["seconds"]),
            "tokens_max_by_mean": _short(told["tokens_max_by_mean"]),
        }
    return found


STREAMS: Final = 16_000
_STREAMS: Final = Asked(connections=STREAMS, lengths="8", prompt_bytes=400, once=True, ramp=10, warm=10, seconds=30)


def streams(bench: Bench) -> Figures:
    """Sixteen thousand open streams through two processes (one of the picker), and their memory."""
    found: Figures = {}
    for router in (programs.LEASTCONN, programs.POWER_OF_TWO, programs.PICKER):
        bench.progress(f"streams: {router.id}")
        processes = 1 if router.program == "picker" else 2
        with bench.ranks(Pacing(step_ms=4_000)) as all_ranks, bench.router(router, processes=processes) as running:
            before = running.resident_bytes()
            client = bench.start(running, _STREAMS, all_ranks)
            time.sleep(_STREAMS.ramp + 12)
            most = running.resident_bytes()
            seen = client.end()
        found[router.id] = {
            "processes": processes,
            "peak_open": seen.clients["peak_open"],
            "failed": sum(one["count"] for one in seen.clients["failures"].values()),
            "resident_mib_before": _short(before / 2**20),
            "kib_per_stream": _short((most - before) / KIB / max(1, seen.clients["peak_open"])),
        }
    return found


_LONG: Final = Asked(connections=256, lengths="32", warm=3, seconds=20, ramp=2)


def server_dies(bench: Bench) -> Figures:
    """One of eight pods is killed under load: what clients see, and for how long."""
    found: Figures = {}
    for router in (programs.LEASTCONN, programs.POWER_OF_TWO, programs.CACHE_AWARE):
        bench.progress(f"server dies: {router.id}")
        with bench.ranks(Pacing(step_ms=100), last_apart=True) as all_ranks, bench.router(router) as running:
            client = bench.start(running, _LONG, all_ranks)
            time.sleep(_LONG.warm + 2)
            killed = all_ranks.kill_last()
            seen = client.end()
        found[router.id] = _after(seen, killed)
    return found


def router_ends(bench: Bench) -> Figures:
    """One of two router processes is killed, or asked to stop."""
    found: Figures = {}
    for router in (programs.LEASTCONN, programs.POWER_OF_TWO):
        assert router.program is not None
        for how, number in (("killed", signal.SIGKILL), ("stopped", programs.SOFT_STOP[router.program])):
            bench.progress(f"router {how}: {router.id}")
            with bench.ranks(Pacing(step_ms=100)) as all_ranks, bench.router(router, processes=2) as running:
                client = bench.start(running, _LONG, all_ranks)
                time.sleep(_LONG.warm + 2)
                at = running.signal(number)
                seen = client.end()
            found[f"{router.id}-{how}"] = _after(seen, at)
    return found


def _after(seen: Seen, at: float) -> Figures:
    """Errors since a moment, by kind, and the seconds until the last one."""
    failures = seen.clients["failures"]
    return {
        "open": seen.clients["peak_open"],
        "errors": {kind: one["count"] for kind, one in sorted(failures.items())},
        "seconds_until_none": _short(max([0.0, *(one["last"] - at for one in failures.values())])),
        "requests": seen.clients["requests"],
        "with_internal_addresses": seen.clients["leaked_addresses"],
    }


def _no_failures(router: Router, seen: Seen) -> None:
    if seen.clients["failures"]:
        raise RehearsalError(f"{router.id}: requests failed: {dict(seen.clients['failures'])}")
