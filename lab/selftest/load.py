"""Size of a self-test: servers, clients, requests, faults."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from fleet.bench.folder import LOOPBACK_MACHINE
from lab.simulators.model_server.node import Cache, Faults, Node, Pace

Mode = Literal["sound", "slow-server", "saturated-client"]
MODEL: Final = "selftest/model"
SERVERS: Final = 2
WORKLOAD: Final = "selftest"
STEP_SECONDS: Final = 0.05
"""Step time of healthy servers. Assumed: a usual time between chunks, at which a client has little to do."""
SLOW_STEP_SECONDS: Final = 0.4
"""Long, so that a busy machine's delays stay far below a tenth of the time between chunks, which a client may be late by."""
CALIBRATION_CHUNKS_PER_S: Final = 8_000
"""Offered while the client's cost is measured: little enough that chunks are read one by one, as on a fleet whose clients have
headroom. Assumed: a quarter of what a stock client carries."""
OVERLOAD: Final = 8.0
"""Chunks offered to a client that shall be saturated, as a multiple of what it carries by that cost. A client that is late reads
several chunks at once, and then spends a third or less on each."""
SATURATED_CHUNK_SECONDS: Final = 30.0
"""Planned duration of the saturated client."""
LONG_ANSWER_TOKENS: Final = 1_600
"""Where chunks shall be what costs, and not requests."""
INPUT_TOKENS: Final = 256
MTP_TOKENS: Final = 1
ACCEPTANCE: Final = 0.9
"""Of a draft token. Source: the article, MTP-1."""
_RATIO: Final = 1 / 3


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """Options of a self-test."""

    mode: Mode = "sound"
    clients: int = 2
    connections: int = 64
    """Requests in flight, all clients together."""
    vllm: Path | None = None
    """Python of an environment with vLLM; None: the small client."""
    folder: Path
    """Folder of the measurement."""

    @property
    def requests_per_client(self) -> int:
        """Five for each connection give a steady window; rounded up."""
        return -(-5 * self.connections // self.clients)

    @property
    def pods(self) -> int:
        """Two where there are two clients, so that the barrier between pods is tried."""
        return min(2, self.clients)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Servers and requests of one measurement."""

    node: Node
    faults: Faults
    input_tokens: int
    output_tokens: int
    """Means; lengths are drawn from two thirds to four thirds of them."""
    connections: int
    clients: int
    pods: int
    requests_per_client: int
    repeats: int
    server_cores: tuple[int, ...] = ()
    client_cores: tuple[int, ...] = ()

    @property
    def tokens_per_chunk(self) -> float:
        """Mean chunks of a request after the first."""
        return 1 + ACCEPTANCE * self.node.speculative_tokens

    @property
    def planned_seconds(self) -> float:
        """Duration without delays: the requests of a connection one after another, one step a chunk."""
        turns = self.repeats * self.clients * self.requests_per_client / self.connections
        return turns * (1 + self.output_tokens / self.tokens_per_chunk) * self.node.pace.fixed_s

    def asked(self, servers: int) -> dict[str, Any]:
        """run.json."""
        return {
            "schema": 1,
            "stack": "selftest",
            "profile": "selftest",
            "served_model": self.node.model,
            "model_revision": "none",
            "image": "model_server on loopback",
            "engines_per_replica": self.node.ranks,
            "speculative_tokens": self.node.speculative_tokens,
            "workload": {
                "name": WORKLOAD,
                "kind": "random",
                "arguments": {
                    "random-input-len": str(self.input_tokens),
                    "random-output-len": str(self.output_tokens),
                    "random-range-ratio": f"{_RATIO:.4f}",
                },
                "ignore_eos": True,
            },
            "points": [{"connections": self.connections, "clients": self.clients}],
            "repeats": self.repeats,
            "prompts_per_client": self.requests_per_client,
            "pods": self.pods,
            "shape": {
                "model": self.node.model,
                "engine_version": f"stand-in for vLLM {self.node.version}",
                "machine_type": LOOPBACK_MACHINE,
                "replicas": servers,
                "gpus_per_replica": self.node.ranks,
                "flags": {},
                "env": {},
                "routing": "cluster-ip",
                "workload": WORKLOAD,
            },
        }


def sound(test: SelfTest) -> Load:
    """Servers with steady timing, clients with little to do."""
    return _load(test, node=_node(STEP_SECONDS), faults=Faults(), output_tokens=96)


def slow_server(test: SelfTest) -> Load:
    """Steps of 0.4 s; one of each server's two engines is idle.

    Of 64 requests in flight each engine's share is 16: from 12 on an idle one is no chance. Source: fleet/bench/certificate/limits.py,
    ENGINE_DEVIATIONS: three times the square root of so many is less than all of them.
    """
    node = replace(_node(SLOW_STEP_SECONDS), ranks=2)
    return _load(test, node=node, faults=Faults(starving_ranks=(1,)), output_tokens=16)


def calibrating() -> Load:
    """One client with little to do, to measure its cost of a chunk."""
    connections = 32
    return _for_one_client(connections, CALIBRATION_CHUNKS_PER_S, requests=connections)


def saturating(test: SelfTest, cost_us: float) -> Load:
    """One client, and servers that send several times the chunks it can read at that cost."""
    connections = test.connections
    per_request = LONG_ANSWER_TOKENS / (1 + ACCEPTANCE * MTP_TOKENS)
    requests = round(SATURATED_CHUNK_SECONDS * 1e6 / cost_us / per_request)
    return _for_one_client(connections, OVERLOAD * 1e6 / cost_us, requests=max(6 * connections, requests))


def _for_one_client(connections: int, chunks_per_s: float, *, requests: int) -> Load:
    cores = sorted(os.sched_getaffinity(0))
    return Load(
        node=_node(connections / chunks_per_s),
        faults=Faults(),
        input_tokens=INPUT_TOKENS,
        output_tokens=LONG_ANSWER_TOKENS,
        connections=connections,
        clients=1,
        pods=1,
        requests_per_client=requests,
        repeats=1,
        # The client runs alone on the last core.
        client_cores=(cores[-1],),
        server_cores=tuple(cores[:-1]),
    )


def _load(test: SelfTest, *, node: Node, faults: Faults, output_tokens: int) -> Load:
    return Load(
        node=node,
        faults=faults,
        input_tokens=INPUT_TOKENS,
        output_tokens=output_tokens,
        connections=test.connections,
        clients=test.clients,
        pods=test.pods,
        requests_per_client=test.requests_per_client,
        repeats=1,
    )


def _node(step_seconds: float) -> Node:
    return Node(
        model=MODEL,
        ranks=4,
        pace=Pace(fixed_s=step_seconds),
        cache=Cache(blocks=20_000, block_tokens=1_584, dtype="fp8_e4m3"),
        speculative_tokens=MTP_TOKENS,
        acceptance=ACCEPTANCE,
        max_model_len=8192,
    )
