"""A closed loop of clients on a made-up server: when each request began and how its tokens came. For tests/fleet/bench/made_up/results.py.

Nothing runs and nothing is waited for: every client keeps its connections busy, a request takes as long as its drawn
time to first token and its drawn gaps between chunks say, and the next one starts when it ends.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOKENS_PER_CHUNK = 1.9
"""As with speculative decoding."""
SLOT_TURN_SECONDS = 0.0005
"""Between an answer's end and the next request on that connection. Assumed: below a millisecond on a client that keeps up."""
FIRST_WAVE_SPREAD_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Made:
    """A made-up measurement: its size and speed, and what goes wrong in it. Clients and engines are numbers, shares lie between 0 and 1."""

    name: str = "bench-00000000"
    seed: int = 0
    clients: int = 4
    requests_per_client: int = 96
    connections_per_client: int = 8
    points: int = 1
    """Each has twice the connections of the one before."""
    repeats: int = 1
    input_tokens: tuple[int, int] = (512, 1024)
    output_tokens: tuple[int, int] = (32, 64)
    chunk_seconds: float = 0.03
    ttft_seconds: float = 0.2
    servers: int = 2
    engines_per_server: int = 4
    with_gpu: bool = True
    with_texts: bool = True
    slo: dict[str, float] | None = None
    fail_share: float = 0.0
    """Failed requests of every client; their errors are of several kinds."""
    fail_all: bool = False
    short_share: float = 0.0
    """Answers that end before the length asked for."""
    repeated_share: float = 0.0
    """Prompts of every client that are client 0's."""
    same_prompts_in_repeats: bool = False
    """Every repeat sends the first one's prompts."""
    saturated_client: int | None = None
    """A client process at its core's end: CPU full, event loop late, its answers slow, the server idle meanwhile."""
    repeat_noise: float = 0.003
    """Relative standard deviation of the server's speed between repeats."""
    starved_engine: int | None = None
    """An engine of the first server that gets no request."""
    choked_engine: int | None = None
    """An engine of the first server whose cache is full and whose queue grows."""
    engine_restart: bool = False
    """The first server's counters begin anew in the middle of every run."""
    foreign_tokens: float = 0.0
    """Tokens that the servers generated for others, as a share of the clients'."""
    preemptions: int = 0

    @property
    def engines(self) -> int:
        """Of all servers."""
        return self.servers * self.engines_per_server

    def connections(self, point: int) -> int:
        """Of one client."""
        return self.connections_per_client * 2**point


@dataclass
class ClientLoad:
    """All requests of one client in the order they were sent; chunk gaps of all requests in one array."""

    start: Floats
    """Seconds since the common start."""
    ttft: Floats
    gaps: Floats
    counts: Ints
    """Gaps of each request."""
    input_tokens: Ints
    asked_tokens: Ints
    output_tokens: Ints
    """0: failed."""
    engine: Ints
    errors: list[str] = field(default_factory=list)

    @property
    def end(self) -> Floats:
        """Last chunk of each request."""
        sums = np.zeros(len(self.counts))
        alive = self.counts > 0
        if alive.any():
            sums[alive] = np.add.reduceat(self.gaps, (np.cumsum(self.counts) - self.counts)[alive])
        return self.start + self.ttft + sums

    def chunk_times(self) -> tuple[Floats, Floats, Ints]:
        """Moment, tokens and engine of every chunk of the successful requests."""
        good = self.output_tokens > 0
        chunks = np.where(good, self.counts + 1, 0)
        of = np.repeat(np.arange(len(chunks)), chunks)
        steps = np.insert(self.gaps, np.cumsum(self.counts) - self.counts, 0.0)[np.repeat(good, self.counts + 1)]
        run = np.cumsum(steps)
        first = np.cumsum(chunks) - chunks
        base = run[np.minimum(first, len(run) - 1)] if len(run) else np.zeros(len(chunks))
        return (
            (self.start + self.ttft)[of] + run - base[of],
            (self.output_tokens / np.maximum(chunks, 1))[of],
            self.engine[of],
        )


_ERRORS = (
    'Traceback (most recent call last):\n  File "endpoint_request_func.py", line 169, in async_request_openai_completions\n'
    "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected\n",
    "Service Unavailable",
    "",
    "Traceback (most recent call last):\nTimeoutError\n",
    "Traceback (most recent call last):\naiohttp.client_exceptions.ClientConnectorError: Cannot connect to host "
    "10.0.0.1:8000 ssl:default [Connect call failed ('10.0.0.1', 8000)]\n",
    "Never received a valid chunk to calculate TTFT.This response will be marked as failed!",
)


def client_load(made: Made, connections: int, client: int, speed: float, rng: np.random.Generator) -> ClientLoad:
    """One client's requests. `speed`: the server's, 1.0 is the measurement's own."""
    n = made.requests_per_client
    inputs = rng.integers(made.input_tokens[0], made.input_tokens[1] + 1, n)
    asked = rng.integers(made.output_tokens[0], made.output_tokens[1] + 1, n)
    short = rng.random(n) < made.short_share
    got = np.where(short, np.maximum(1, (asked * rng.uniform(0.2, 0.9, n)).astype(np.int64)), asked)
    counts = np.maximum(np.ceil(got / TOKENS_PER_CHUNK).astype(np.int64) - 1, 0)
    failed = np.ones(n, dtype=bool) if made.fail_all else rng.random(n) < made.fail_share
    counts[failed] = 0
    slow = 2.0 if client == made.saturated_client else 1.0
    ttft = rng.lognormal(np.log(made.ttft_seconds * slow / speed), 0.25, n)
    ttft[:connections] *= 2.5  # the first wave comes all at once
    ttft[failed] = 0.0
    gaps = rng.gamma(16.0, made.chunk_seconds * slow / speed / 16.0, int(counts.sum()))
    begins = np.cumsum(counts) - counts
    sums = np.concatenate([[0.0], np.cumsum(gaps)])
    takes = np.where(failed, 0.05, ttft + sums[begins + counts] - sums[begins])
    free = sorted((rng.random(connections) * FIRST_WAVE_SPREAD_SECONDS).tolist())
    start = np.empty(n)
    for i, seconds in enumerate(takes.tolist()):
        start[i] = free[0]
        heapq.heapreplace(free, free[0] + seconds + SLOT_TURN_SECONDS)
    engines = np.array([e for e in range(made.engines) if e != made.starved_engine])
    return ClientLoad(
        start=start,
        ttft=ttft,
        gaps=gaps,
        counts=counts,
        input_tokens=inputs,
        asked_tokens=asked,
        output_tokens=np.where(failed, 0, got),
        engine=engines[(np.arange(n) + client) % len(engines)],
        errors=[_ERRORS[i % len(_ERRORS)] if bad else "" for i, bad in enumerate(failed.tolist())],
    )


def summary(load: ClientLoad) -> dict[str, Any]:
    """The figures that a client prints of itself."""
    duration = float(load.end.max() - load.start.min())
    outputs = int(load.output_tokens.sum())
    tokens = int(load.input_tokens[load.output_tokens > 0].sum()) + outputs
    return {"output_throughput": outputs / duration, "total_token_throughput": tokens / duration}
