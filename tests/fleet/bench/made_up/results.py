"""Make a believable folder of benchmark results of any size, sound or with named faults; the same seed gives the same bytes.

Every figure is made up: the folders test and time what reads them (layout: fleet/bench/folder.py).
"""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tests.fleet.bench.made_up.load import ClientLoad, Ints, Made, client_load, summary
from tests.fleet.bench.made_up.servers import engine_values, write_gpu
from tests.support.benchmark import run_json

BEGAN = 1_780_000_000.0
"""Wall clock of the first run's common start: 2026-05-28."""
BOOT = BEGAN - 86_413.5
"""Wall clock at which the node's monotonic clock was zero."""
BETWEEN_RUNS_SECONDS = 45.0
BEFORE_SECONDS = 2
"""From the collector's first sample to the common start."""
CPU_SECONDS_PER_CHUNK = 33e-6
"""Of a stock client. Measured: 30 to 35 us a chunk."""
_TEXT = " ".join(
    f"{word}" for word in ("The answer is spread over many chunks, and each of them has some words.",) * 400
)
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


def make_measurement(folder: Path, **options: Any) -> Path:
    """Write a measurement into `folder` and return it; `options` are fields of `tests.fleet.bench.made_up.load.Made`."""
    made = Made(**options)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_bytes(orjson.dumps(_asked(made), option=orjson.OPT_INDENT_2))
    go = BEGAN
    busy: list[tuple[float, float]] = []
    for point in range(made.points):
        for repeat in range(made.repeats):
            length = _Run(folder / f"point-{point:02d}-repeat-{repeat}", made, point, repeat, go).write()
            busy.append((go, go + length))
            go += length + BETWEEN_RUNS_SECONDS
    if made.with_gpu:
        write_gpu(folder, made.servers, busy)
    return folder


@dataclass
class _Run:
    """The files of one run."""

    folder: Path
    made: Made
    point: int
    repeat: int
    go: float
    """The common start."""
    loads: list[ClientLoad] = field(default_factory=list)

    def __post_init__(self) -> None:
        drawn = [self.made.seed, self.point, self.repeat]
        # What is drawn beside the load does not change it.
        self.rng, self.aside = np.random.default_rng(drawn), np.random.default_rng([*drawn, 1])
        self.index = self.point * self.made.repeats + self.repeat
        self.folder.mkdir(parents=True)

    def write(self) -> float:
        """All clients' files, the pod's and the servers'; returns the seconds to the last answer."""
        made, speed = self.made, 1.0 + self.rng.normal(0.0, self.made.repeat_noise)
        for client in range(made.clients):
            one = client_load(made, made.connections(self.point), client, speed, self.rng)
            self.loads.append(one)
            self._write_client(client, one)
        length = max(float(one.end.max()) for one in self.loads)
        course = {
            "schema": 1,
            "began": self.go - 90.0,
            "ended": self.go + length + 1.0,
            "exit_codes": {str(client): 0 for client in range(made.clients)},
            "notes": [],
        }
        (self.folder / "pod.json").write_bytes(orjson.dumps(course))
        self._write_metrics(length)
        return length

    def seed_of(self, client: int) -> int:
        """Distinct over clients, points and repeats."""
        return zlib.crc32(self.made.name.encode()) % 2**31 + self.index * self.made.clients + client

    def _write_client(self, client: int, one: ClientLoad) -> None:
        stem = f"client-{client:03d}"
        end = self.go + float(one.end.max())
        result = {
            "model_id": "Qwen/Qwen3.5-27B-FP8",
            "num_prompts": self.made.requests_per_client,
            "client": str(client),
            "max_concurrency": self.made.connections(self.point),
            **summary(one),
            "input_lens": one.input_tokens,
            "output_lens": one.output_tokens,
            "ttfts": one.ttft,
            "itls": np.split(one.gaps, np.cumsum(one.counts)[:-1]),
            "start_times": one.start + self.go - BOOT,
            "generated_texts": [
                _TEXT[: int(n * 4.5)] if self.made.with_texts else "" for n in one.output_tokens.tolist()
            ],
            "errors": one.errors,
        }
        (self.folder / f"{stem}.json").write_bytes(orjson.dumps(result, option=_OPTIONS))
        (self.folder / f"{stem}.log").write_text("============ Serving Benchmark Result ============\n")
        witness = self._witness(client, one, end)
        (self.folder / f"{stem}.witness.json").write_bytes(orjson.dumps(witness, option=_OPTIONS))

    def _witness(self, client: int, one: ClientLoad, end: float) -> dict[str, Any]:
        seconds = int(np.ceil(end - self.go)) + 1
        moments, _, _ = one.chunk_times()
        chunks = np.bincount(np.clip(moments.astype(np.int64), 0, seconds - 1), minlength=seconds)
        cpu = 0.02 + chunks * CPU_SECONDS_PER_CHUNK
        lag = 0.3 + 0.9 * self.aside.random(seconds)
        if client == self.made.saturated_client:
            cpu, lag = np.full(seconds, 0.995), 180.0 + 90.0 * self.aside.random(seconds)
        return {
            "schema": 1,
            "client": client,
            "program": "vllm bench serve 0.18.1",
            "seed": self.seed_of(client),
            "clock": {"wall": end + 0.3, "perf_counter": end + 0.3 - BOOT},
            "loop_lag_p99_ms": float(np.percentile(lag, 99)),
            "samples": {"at": self.go + 1.0 + np.arange(seconds), "cpu_share": cpu, "loop_lag_ms": lag},
            "prompt_hashes": self._hashes(client),
            "asked_input_tokens": one.input_tokens,
            "asked_output_tokens": one.asked_tokens,
        }

    def _hashes(self, client: int) -> list[str]:
        made, run = self.made, 0 if self.made.same_prompts_in_repeats else self.index
        repeated = int(made.repeated_share * made.requests_per_client) if client else 0
        prompts = (f"{made.seed}/{run}/{client * (i >= repeated)}/{i}" for i in range(made.requests_per_client))
        return [hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest() for prompt in prompts]

    def _write_metrics(self, length: float) -> None:
        """What the servers say, second by second."""
        made, seconds = self.made, int(length) + 3 + BEFORE_SECONDS
        generated, prompts, finished, began = np.zeros((4, made.engines, seconds))
        for one in self.loads:
            moments, tokens, ranks = one.chunk_times()
            _add(generated, ranks, moments, tokens)
            good = one.output_tokens > 0
            begins, ends = one.start[good], one.end[good]
            _add(prompts, one.engine[good], begins + one.ttft[good], one.input_tokens[good])
            _add(finished, one.engine[good], ends, np.ones(len(ends)))
            _add(began, one.engine[good], begins, np.ones(len(ends)))
        generated *= 1.0 + made.foreign_tokens
        tokens, inputs, done = (np.cumsum(grid, axis=1) for grid in (generated, prompts, finished))
        active = np.cumsum(began, axis=1) - done
        for grid, before in ((tokens, 50_000.0), (inputs, 100_000.0), (done, 130.0)):
            grid += before  # the servers have served before
            if made.engine_restart:
                half = seconds // 2
                grid[: made.engines_per_server, half:] -= grid[: made.engines_per_server, half - 1 : half].copy()
        lines = []
        for second in range(seconds):
            for server in range(made.servers):
                values: dict[str, dict[str, float]] = {}
                for engine in range(made.engines_per_server):
                    row = server * made.engines_per_server + engine
                    of = engine_values(
                        generated=float(tokens[row, second]),
                        prompts=float(inputs[row, second]),
                        done=float(done[row, second]),
                        running=float(active[row, second]),
                        waiting=400.0 + second if row == made.choked_engine else 0.0,
                        preempted=float(made.preemptions if second > seconds // 2 else 0),
                    )
                    for metric, value in of.items():
                        values.setdefault(metric, {})[str(engine)] = value
                at = self.go + second + 1.0 - BEFORE_SECONDS
                sample: dict[str, Any] = {"at": at, "server": f"10.0.1.{server + 1}:8000", "values": values}
                if second == 0:
                    sample["info"] = {"block_size": "16", "num_gpu_blocks": "54700", "cache_dtype": "fp8_e4m3"}
                lines.append(orjson.dumps(sample))
        (self.folder / "server-metrics.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n", 1, mtime=0))


def _add(grid: Any, engine: Ints, moments: Any, weights: Any) -> None:
    seconds = grid.shape[1]
    cell = engine * seconds + np.clip(moments.astype(np.int64) + BEFORE_SECONDS, 0, seconds - 1)
    grid += np.bincount(cell, weights=weights, minlength=grid.size).reshape(grid.shape)


def _asked(made: Made) -> dict[str, Any]:
    lengths = {
        "input-len": str(sum(made.input_tokens) // 2),
        "output-len": str(sum(made.output_tokens) // 2),
        "range-ratio": "0.3333",
    }
    shape = {
        "engine_version": "0.18.0",
        "machine_type": "a4-highgpu-8g",
        "replicas": made.servers,
        "gpus_per_replica": 8,
        "flags": {"data-parallel-size": made.engines_per_server, "max-num-seqs": 8192},
    }
    return run_json(
        "Qwen/Qwen3.5-27B-FP8",
        "article",
        lengths,
        shape,
        name=made.name,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN - 120.0)),
        engines_per_replica=made.engines_per_server,
        speculative_tokens=1,
        points=[
            {"connections": made.connections(point) * made.clients, "clients": made.clients}
            for point in range(made.points)
        ],
        repeats=made.repeats,
        prompts_per_client=made.requests_per_client,
        slo=made.slo,
        cost={"usd_per_hour": 120.0, "at_least": False, "capacity": "spot"},
    )
