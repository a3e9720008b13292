"""The measurements: each starts ranks and routers, sends requests, and returns figures."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lab.results.result import RehearsalError
from lab.routers import programs, ranks
from lab.routers.programs import Programs, Router, Running
from lab.routers.ranks import Pacing

Figures = dict[str, Any]

SHORT_PROMPT: Final = 3_000
"""Bytes: about the article's mean prompt of 768 tokens."""
LONG_PROMPT: Final = 40_000
KIB: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run of clients. Each has one conversation after another, and one request at a time."""

    connections: int
    lengths: str = "1"
    """Tokens of an answer, with shares."""
    prompt_bytes: int = SHORT_PROMPT
    """Of a user's message."""
    seconds: float
    warm: float = 1.0
    groups: int = 0
    """System prompts; 0: none."""
    hot: float = 0.0
    """Share of the conversations with the first of them."""
    prefix_bytes: int = 0
    """Of a system prompt."""
    turns: int = 1
    think: float = 0.0
    """Mean seconds between two turns."""

    def options(self) -> list[str]:
        """For `routerload clients`."""
        return [
            f"-connections={self.connections}",
            f"-lengths={self.lengths}",
            f"-prompt-bytes={self.prompt_bytes}",
            f"-seconds={self.seconds}",
            f"-warm={self.warm}",
            f"-ramp={self.warm / 2}",
            f"-groups={self.groups}",
            f"-hot={self.hot}",
            f"-prefix-bytes={self.prefix_bytes}",
            f"-turns={self.turns}",
            f"-think={self.think}",
        ]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run: what clients saw, and what the ranks and the router counted from a moment on."""

    clients: Mapping[str, Any]
    ranks: Mapping[str, Any]
    router_cpu: float
    """Seconds."""


class Bench:
    """Programs, a folder for their files, and the length of runs."""

    def __init__(self, found: Programs, folder: Path, progress: Callable[[str], None], *, seconds: float) -> None:
        self.programs, self.folder, self.progress, self.seconds = found, folder, progress, seconds

    def run(self, router: Router, pacing: Pacing, asked: Asked, *, whole: bool = False) -> Seen:
        """One run to its end. `whole`: counts of the time before the measured seconds, too. Raises RehearsalError."""
        self.progress(f"{router.id}: {asked.connections} clients for {asked.warm + asked.seconds:g} s")
        with (
            ranks.running(self.programs.routerload, pacing, self.folder) as all_ranks,
            programs.running(router, self.programs, self.folder) as running,
        ):
            cpu = running.cpu_seconds()
            client = subprocess.Popen(
                [self.programs.routerload, "clients", f"-targets={','.join(running.targets)}", *asked.options()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                if not whole:
                    time.sleep(asked.warm)
                    all_ranks.reset()
                    cpu = running.cpu_seconds()
                out, err = client.communicate(timeout=60 + asked.seconds + asked.warm)
            except subprocess.TimeoutExpired:
                raise RehearsalError(f"clients of {router.id} did not end in time") from None
            finally:
                client.kill()
            if client.returncode:
                raise RehearsalError(f"clients of {router.id} failed: {err.strip()[:400]}")
            return _seen(router, json.loads(out), all_ranks.counts(), running, cpu)


def _seen(router: Router, clients: Mapping[str, Any], counts: Mapping[str, Any], running: Running, cpu: float) -> Seen:
    if clients["failures"]:
        raise RehearsalError(f"{router.id}: requests failed: {dict(clients['failures'])}")
    return Seen(clients=clients, ranks=counts, router_cpu=running.cpu_seconds() - cpu)


def cost(bench: Bench) -> Figures:
    """Processor time of a request, of a KiB of prompt and of a chunk; p99 that a router adds to a direct connection."""
    return _beside_direct(
        {one.id: _cost(bench, one) for one in (programs.DIRECT, programs.LEAST, *programs.CANDIDATES)}
    )


def _cost(bench: Bench, router: Router) -> Figures:
    short = bench.seconds / 3
    requests = bench.run(router, Pacing(step_ms=10), Asked(connections=16, seconds=short), whole=True)
    prompts = bench.run(
        router, Pacing(step_ms=10), Asked(connections=8, prompt_bytes=LONG_PROMPT, seconds=short), whole=True
    )
    chunks = bench.run(router, Pacing(step_ms=50), Asked(connections=200, lengths="400", seconds=short), whole=True)
    per_request, per_chunk, per_kib = parts(requests, prompts, chunks)
    each = per_request + SHORT_PROMPT / KIB * per_kib + per_chunk
    return {
        "cpu_us_per_request": 1e6 * per_request,
        "cpu_us_per_kib": 1e6 * per_kib,
        "cpu_us_per_chunk": 1e6 * per_chunk,
        "requests_per_s_per_core": 1 / each if each > 0 else None,
        "first_p99_us": requests.clients["first_p99_us"],
        "long_first_p99_us": prompts.clients["first_p99_us"],
        "chunk_p99_us": chunks.clients["chunk_p99_us"],
    }


def parts(requests: Seen, prompts: Seen, chunks: Seen) -> tuple[float, float, float]:
    """Seconds of a request without prompt and chunks, of a chunk, of a KiB of prompt: three equations."""
    import numpy as np

    rows, sums = [], []
    for seen, prompt in ((requests, SHORT_PROMPT), (prompts, LONG_PROMPT), (chunks, SHORT_PROMPT)):
        accepted = seen.ranks["accepted"]
        rows.append([accepted, seen.ranks["chunks"], accepted * prompt / KIB])
        sums.append(seen.router_cpu)
    per_request, per_chunk, per_kib = (float(value) for value in np.linalg.solve(np.array(rows), np.array(sums)))
    return per_request, per_chunk, per_kib


def _beside_direct(found: dict[str, Figures]) -> Figures:
    direct = found[programs.DIRECT.id]
    for row in found.values():
        for name in ("first_p99_us", "long_first_p99_us", "chunk_p99_us"):
            row[f"{name}_by_direct"] = row[name] / direct[name]
    return found


ENGINE: Final = Pacing(step_ms=32, each_ms=8, block_ms=4, blocks=512)
"""An engine a few times slower and smaller than a real one, in proportion. Four requests of 16 tokens run in each; half of their step is
theirs, and computing a whole prompt takes three tenths of an engine's time, as at the article's lengths: 71 ms for a prompt, 168 ms for an
answer's part of the steps (facts/data/disaggregation.yaml)."""
_LARGE: Final = replace(ENGINE, blocks=1_024)
"""The same, with room for the histories of eight conversations."""
_LONG: Final = replace(ENGINE, block_ms=0.4, blocks=5_120)
"""The same for prompts that are ten times as long."""
_ASKED: Final = Asked(connections=256, lengths="16", prompt_bytes=600, seconds=0, warm=8, prefix_bytes=1_200)
LOADS: Final[Mapping[str, tuple[Pacing, Asked]]] = {
    # Uneven answers of prompts that nothing shares: balance alone.
    "unshared": (ENGINE, replace(_ASKED, lengths="8:0.8,48:0.2", prefix_bytes=0, prompt_bytes=1_800)),
    # 8 system prompts take a third of a rank's cache, 256 ten times as much as it has.
    "few-systems": (ENGINE, replace(_ASKED, groups=8)),
    "many-systems": (ENGINE, replace(_ASKED, groups=256)),
    "one-hot": (ENGINE, replace(_ASKED, groups=256, hot=0.5)),
    # A client thinks between turns: otherwise the rank that just answered it has the fewest requests, and gets its next one.
    "ten-turns": (_LARGE, replace(_ASKED, connections=512, groups=8, prompt_bytes=400, turns=10, think=1.0)),
    # System prompts end beyond HAProxy's buffer of 16 KiB; 32 of them take twice a rank's cache.
    "long-systems": (_LONG, replace(_ASKED, groups=32, prefix_bytes=17_000)),
}


def prefixes(bench: Bench) -> Figures:
    """Share of the prompts' blocks that the ranks' caches had, requests/s, first token and balance for each load and router."""
    return {
        name: _by_router(bench, engine, replace(load, seconds=bench.seconds)) for name, (engine, load) in LOADS.items()
    }


def _by_router(bench: Bench, engine: Pacing, load: Asked) -> Figures:
    found = {one.id: _prefixes(bench, one, engine, load) for one in (programs.LEAST, *programs.CANDIDATES)}
    least = found[programs.LEAST.id]["requests_per_s"]
    for row in found.values():
        row["requests_by_least"] = row["requests_per_s"] / least
    return found


def _prefixes(bench: Bench, router: Router, engine: Pacing, load: Asked) -> Figures:
    seen = bench.run(router, engine, load)
    clients, counts = seen.clients, seen.ranks
    return {
        "hit_share": counts["prompt_blocks_hit"] / max(1, counts["prompt_blocks"]),
        "requests_per_s": clients["requests"] / clients["seconds"],
        "first_p50_ms": clients["first_p50_us"] / 1e3,
        "first_p99_ms": clients["first_p99_us"] / 1e3,
        "requests_max_by_mean": counts["requests_max_by_mean"],
        "tokens_max_by_mean": counts["tokens_max_by_mean"],
        "router_cores": seen.router_cpu / clients["seconds"],
    }
