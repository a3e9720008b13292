"""CPU time that a client spends on a chunk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fleet.bench.folder import CLIENT_FILE, Witness


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Over the main phase, all clients together. A chunk is an event with tokens."""

    cpu_seconds: float
    chunks: int
    requests: int

    @property
    def us_per_chunk(self) -> float:
        """CPU time per chunk, including requests."""
        return 1e6 * self.cpu_seconds / max(1, self.chunks)


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Requests of the clients before the common start, which are in no result."""

    requests: int
    input_tokens: int
    output_tokens: int


def client_cost(folder: Path) -> Cost:
    """From every client's witness and result in a measurement's folder."""
    cpu, chunks, requests = 0.0, 0, 0
    for result_file in _results(folder):
        witness = _witness(result_file)
        before = witness.barrier.released_at
        for at, share in zip(witness.samples.at, witness.samples.cpu_share, strict=True):
            cpu += share * max(0.0, at - before)
            before = at
        result = json.loads(result_file.read_bytes())
        for length, gaps in zip(result["output_lens"], result["itls"], strict=True):
            if length:
                requests += 1
                chunks += 1 + len(gaps)
    return Cost(cpu_seconds=cpu, chunks=chunks, requests=requests)


def warm_up(folder: Path, most: int) -> WarmUp:
    """Each client warms up with copies of its first request: as many as it has connections, `most` at most."""
    requests = inputs = outputs = 0
    for result_file in _results(folder):
        witness = _witness(result_file)
        copies = min(json.loads(result_file.read_bytes())["max_concurrency"], most)
        requests += copies
        inputs += copies * witness.asked_input_tokens[0]
        outputs += copies * witness.asked_output_tokens[0]
    return WarmUp(requests=requests, input_tokens=inputs, output_tokens=outputs)


def _results(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*/client-*.json") if CLIENT_FILE.fullmatch(file.name))


def _witness(result_file: Path) -> Witness:
    return Witness.model_validate_json(result_file.with_suffix(".witness.json").read_bytes())
