"""Size of routers, from what HAProxy costs on loopback: facts/data/routers.yaml.

The processor time of a request, of its prompt and of a chunk adds up. Measured on one machine with two cores at a rate at which chunks
are read one by one; other machines and more threads a process were not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from facts import ledger

BUSY_SHARE: Final = 0.5
"""Planned load of a router's cores. Assumed: the other half is for bursts, and for a slower core than the measured one."""
FEWEST: Final = 2
CPU_STEPS: Final = (2, 4, 8, 16)
"""vCPU of one router, smallest first. Assumed: pods that fit a small node."""
MOST_REPLICAS: Final = 20
"""Source: settings/sections/endpoint.py, Router.replicas."""
STREAMS_PER_GIB: Final = 10_000
"""Connections for a GiB of a router's memory. Source: settings/derived/router.py, CONNECTIONS_PER_GIB; the measured memory is less."""
_S_PER_US: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterCost:
    """Processor time of one program."""

    request_us: float
    """Of a request without its prompt."""
    kib_us: float
    """Of a KiB of prompt."""
    chunk_us: float
    """Of a streamed chunk."""

    def cores(self, requests_per_s: float, prompt_kib: float, chunks_per_s: float) -> float:
        """Busy cores at a load."""
        each = self.request_us + prompt_kib * self.kib_us
        return _S_PER_US * (requests_per_s * each + chunks_per_s * self.chunk_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSize:
    """Routers for a load."""

    replicas: int
    cpu: int
    """vCPU of each."""
    memory_gib: int
    """Memory of each."""
    busy_cores: float
    """All routers together, at the load."""


def cost(program: str) -> RouterCost:
    """What a measured program costs. Raises LedgerError for an unknown one."""
    row = ledger.entry("routers", "cost", program)
    return RouterCost(
        request_us=row["cpu_us_per_request"], kib_us=row["cpu_us_per_kib"], chunk_us=row["cpu_us_per_chunk"]
    )


def size(*, requests_per_s: float, prompt_kib: float, chunks_per_s: float, in_flight: float) -> RouterSize | None:
    """Routers that carry the load with one of them away. None above 20 routers of the largest size. Raises ValueError for a negative
    load.
    """
    for name, value in (
        ("requests_per_s", requests_per_s),
        ("prompt_kib", prompt_kib),
        ("chunks_per_s", chunks_per_s),
        ("in_flight", in_flight),
    ):
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, got {value}")
    busy = cost("haproxy").cores(requests_per_s, prompt_kib, chunks_per_s)
    needed = busy / BUSY_SHARE
    for cpu in CPU_STEPS:
        serving = max(1, ceil(needed / cpu))
        if serving + 1 <= (4 if cpu < CPU_STEPS[-1] else MOST_REPLICAS):
            memory = max(FEWEST, ceil(in_flight / serving / STREAMS_PER_GIB))
            return RouterSize(replicas=max(FEWEST, serving + 1), cpu=cpu, memory_gib=memory, busy_cores=busy)
    return None
