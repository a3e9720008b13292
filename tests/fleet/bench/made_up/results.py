"""Make a believable folder of benchmark results of any size, sound or with named faults; the same seed gives the same bytes.

Every figure is made up: the folders test and time what reads them (layout: fleet/bench/folder.py). Chunks carry several
tokens, as with speculative decoding.
"""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tests.fleet.bench.made_up.load import ClientLoad, Faults, Ints, Load, client_load, summary
from tests.fleet.bench.made_up.servers import engine_values, write_gpu

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


def make_measurement(
    folder: Path,
    *,
    clients: int = 4,
    requests_per_client: int = 96,
    points: int | Sequence[int] = 1,
    repeats: int = 1,
    with_metrics: bool = True,
    with_gpu: bool = True,
    seed: int = 0,
    connections_per_client: int = 8,
    input_tokens: tuple[int, int] = (512, 1024),
    output_tokens: tuple[int, int] = (32, 64),
    tokens_per_chunk: float = 1.9,
    chunk_seconds: float = 0.03,
    ttft_seconds: float = 0.2,
    servers: int = 2,
    engines_per_server: int = 4,
    with_texts: bool = True,
    slo: dict[str, float] | None = None,
    usd_per_hour: float | None = 120.0,
    name: str = "bench-00000000",
    began: float = BEGAN,
    **faults: Any,
) -> Path:
    """Write a measurement into `folder` and return it.

    `points`: how many (each has twice the connections of the one before), or the connections of a client at each. `faults`:
    fields of `tests.fleet.bench.made_up.load.Faults`.
    """
    wrong = Faults(**faults)
    loads = [connections_per_client * 2**i for i in range(points)] if isinstance(points, int) else list(points)
    folder.mkdir(parents=True, exist_ok=True)
    asked = _asked(
        name, clients, loads, repeats, requests_per_client, servers, engines_per_server, slo, usd_per_hour,
        (input_tokens, output_tokens),
    )  # fmt: skip
    (folder / "run.json").write_bytes(orjson.dumps(asked, option=orjson.OPT_INDENT_2))
    go = began
    watts: list[tuple[float, float]] = []
    for point, connections in enumerate(loads):
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, point, repeat])
            load = Load(
                clients=clients,
                requests=requests_per_client,
                connections=connections,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                tokens_per_chunk=tokens_per_chunk,
                chunk_seconds=chunk_seconds,
                ttft_seconds=ttft_seconds,
                engines=servers * engines_per_server,
            )
            writer = _RunWriter(
                folder=folder / f"point-{point:02d}-repeat-{repeat}",
                name=name, point=point, repeat=repeat, run_index=point * repeats + repeat, load=load, faults=wrong, go=go,
                with_texts=with_texts, rng=rng, seed=seed,
            )  # fmt: skip
            length = writer.write()
            if with_metrics:
                writer.write_metrics(servers, engines_per_server, length)
            watts.append((go, go + length))
            go += length + BETWEEN_RUNS_SECONDS
    if with_gpu:
        write_gpu(folder, servers, watts)
    return folder


class _RunWriter:
    """The files of one run."""

    def __init__(
        self, *, folder: Path, name: str, point: int, repeat: int, run_index: int, load: Load, faults: Faults, go: float,
        with_texts: bool, rng: np.random.Generator, seed: int,
    ) -> None:  # fmt: skip
        self.folder, self.name, self.point, self.repeat, self.run_index = folder, name, point, repeat, run_index
        self.load, self.faults, self.go, self.rng, self.seed = load, faults, go, rng, seed
        self.aside = np.random.default_rng([seed, point, repeat, 1])  # what is drawn beside the load does not change it
        self.with_texts = with_texts
        self.first_seed = zlib.crc32(name.encode()) % 2**31
        self.loads: list[ClientLoad] = []
        folder.mkdir(parents=True, exist_ok=True)

    def write(self) -> float:
        """All clients' files and the pod's; returns the seconds to the last answer."""
        speed = 1.0 + self.rng.normal(0.0, self.faults.repeat_noise)
        for client in range(self.load.clients):
            one = client_load(self.load, client, self.faults, speed, self.rng)
            self.loads.append(one)
            if client != self.faults.missing_client:
                self._write_client(client, one)
        length = max(float(one.end.max()) for one in self.loads)
        self._write_pod(length)
        return length

    def seed_of(self, client: int) -> int:
        """Distinct over clients, points and repeats."""
        return self.first_seed + self.run_index * self.load.clients + client

    def _write_client(self, client: int, one: ClientLoad) -> None:
        stem = f"client-{client:03d}"
        bounds = np.cumsum(one.counts)[:-1]
        end = self.go + float(one.end.max())
        result = {
            "date": time.strftime("%Y%m%d-%H%M%S", time.gmtime(end + 0.4)),
            "endpoint_type": "openai",
            "backend": "openai",
            "label": None,
            "model_id": "Qwen/Qwen3.5-27B-FP8",
            "tokenizer_id": "/tokenizer",
            "num_prompts": self.load.requests,
            "run": self.name,
            "point": str(self.point),
            "repeat": str(self.repeat),
            "client": str(client),
            "clients": str(self.load.clients),
            "seed": str(self.seed_of(client)),
            "request_rate": "inf",
            "burstiness": 1.0,
            "max_concurrency": self.load.connections,
            **summary(one),
            "input_lens": one.input_tokens,
            "output_lens": one.output_tokens,
            "ttfts": one.ttft,
            "itls": np.split(one.gaps, bounds),
            "start_times": one.start + self.go - BOOT,
            "generated_texts": [_TEXT[: int(n * 4.5)] if self.with_texts else "" for n in one.output_tokens.tolist()],
            "errors": one.errors,
        }
        (self.folder / f"{stem}.json").write_bytes(orjson.dumps(result, option=_OPTIONS))
        (self.folder / f"{stem}.log").write_text(
            "============ Serving Benchmark Result ============\n", encoding="utf-8"
        )
        witness = self._witness(client, one, end)
        (self.folder / f"{stem}.witness.json").write_bytes(orjson.dumps(witness, option=_OPTIONS))

    def _witness(self, client: int, one: ClientLoad, end: float) -> dict[str, Any]:
        faults = self.faults
        seconds = int(np.ceil(end - self.go)) + 1
        moments, _, _ = one.chunk_times()
        chunks = np.bincount(np.clip(moments.astype(np.int64), 0, seconds - 1), minlength=seconds)
        cpu = 0.02 + chunks * CPU_SECONDS_PER_CHUNK
        lag = 0.3 + 0.9 * self.aside.random(seconds)
        if client == faults.saturated_client:
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
        run = 0 if self.faults.same_prompts_in_repeats else self.run_index
        repeated = int(self.faults.repeated_share * self.load.requests) if client else 0
        return [
            hashlib.blake2b(
                f"{self.seed}/{run}/{0 if i < repeated else client}/{i}".encode(), digest_size=8
            ).hexdigest()
            for i in range(self.load.requests)
        ]

    def _write_pod(self, length: float) -> None:
        course = {
            "schema": 1,
            "began": self.go - 90.0,
            "ended": self.go + length + 1.0,
            "exit_codes": {
                str(client): int(client == self.faults.missing_client) for client in range(self.load.clients)
            },
            "notes": [],
        }
        (self.folder / "pod.json").write_bytes(orjson.dumps(course))

    def write_metrics(self, servers: int, engines: int, length: float) -> None:
        """What the servers would have said, second by second."""
        faults, seconds, total = self.faults, int(length) + 3 + BEFORE_SECONDS, servers * engines
        generated, prompts = np.zeros((total, seconds)), np.zeros((total, seconds))
        finished, running = np.zeros((total, seconds)), np.zeros((total, seconds))
        for one in self.loads:
            moments, tokens, ranks = one.chunk_times()
            _add(generated, ranks, moments, tokens)
            good = one.output_tokens > 0
            begins, ends = one.start[good], one.end[good]
            _add(prompts, one.engine[good], begins + one.ttft[good], one.input_tokens[good])
            _add(finished, one.engine[good], ends, np.ones(len(ends)))
            _add(running, one.engine[good], begins, np.ones(len(ends)))
        generated *= 1.0 + faults.foreign_tokens
        tokens, inputs, done = (np.cumsum(grid, axis=1) for grid in (generated, prompts, finished))
        active = np.cumsum(running, axis=1) - done
        for grid, before in ((tokens, 50_000.0), (inputs, 100_000.0), (done, 130.0)):
            grid += before  # the servers have served before
            if faults.engine_restart:
                half = seconds // 2
                grid[:engines, half:] -= grid[:engines, half - 1 : half].copy()
        lines = []
        for second in range(seconds):
            for server in range(servers):
                sample: dict[str, Any] = {
                    "at": self.go + second + 1.0 - BEFORE_SECONDS,
                    "server": f"10.0.1.{server + 1}:8000",
                }
                if self.aside.random() < faults.failed_scrape_share:
                    lines.append(orjson.dumps({**sample, "values": {}, "info": None, "error": "timed out after 1 s"}))
                    continue
                values: dict[str, dict[str, float]] = {}
                for engine in range(engines):
                    row = server * engines + engine
                    of = engine_values(
                        generated=float(tokens[row, second]),
                        prompts=float(inputs[row, second]),
                        done=float(done[row, second]),
                        running=float(active[row, second]),
                        waiting=400.0 + second if server == 0 and engine == faults.choked_engine else 0.0,
                        preempted=float(faults.preemptions if second > seconds // 2 else 0),
                    )
                    for metric, value in of.items():
                        values.setdefault(metric, {})[str(engine)] = value
                sample["values"] = values
                if second == 0:
                    blocks = "53000" if faults.different_cache_configs and server == 1 else "54700"
                    sample["info"] = {"block_size": "16", "num_gpu_blocks": blocks, "cache_dtype": "fp8_e4m3"}
                lines.append(orjson.dumps(sample))
        (self.folder / "server-metrics.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n", 1, mtime=0))


def _add(grid: Any, engine: Ints, moments: Any, weights: Any) -> None:
    seconds = grid.shape[1]
    cell = engine * seconds + np.clip(moments.astype(np.int64) + BEFORE_SECONDS, 0, seconds - 1)
    grid += np.bincount(cell, weights=weights, minlength=grid.size).reshape(grid.shape)


def _asked(
    name: str, clients: int, loads: Sequence[int], repeats: int, requests: int, servers: int, engines: int,
    slo: dict[str, float] | None, usd_per_hour: float | None, lengths: tuple[tuple[int, int], tuple[int, int]],
) -> dict[str, Any]:  # fmt: skip
    (in_low, in_high), (out_low, out_high) = lengths
    return {
        "schema": 1,
        "name": name,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN - 120.0)),
        "stack": "dev",
        "profile": "record",
        "served_model": "Qwen/Qwen3.5-27B-FP8",
        "model_revision": "0" * 40,
        "image": "v0.18.0@sha256:" + "0" * 64,
        "engines_per_replica": engines,
        "speculative_tokens": 1,
        "workload": {
            "name": "article",
            "kind": "random",
            "arguments": {
                "random-input-len": str((in_low + in_high) // 2),
                "random-output-len": str((out_low + out_high) // 2),
                "random-range-ratio": "0.3333",
            },
            "ignore_eos": True,
        },
        "points": [{"connections": connections * clients, "clients": clients} for connections in loads],
        "repeats": repeats,
        "prompts_per_client": requests,
        "slo": slo,
        "shape": {
            "model": "Qwen/Qwen3.5-27B-FP8",
            "engine_version": "0.18.0",
            "machine_type": "a4-highgpu-8g",
            "replicas": servers,
            "gpus_per_replica": 8,
            "flags": {"data-parallel-size": engines, "max-num-seqs": 8192},
            "env": {},
            "routing": "cluster-ip",
            "workload": "article",
        },
        "cost": None if usd_per_hour is None else {"usd_per_hour": usd_per_hour, "at_least": False, "capacity": "spot"},
    }
