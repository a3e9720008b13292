"""run.json as a list of runs with the clients of each.

The program wrote it (settings/derived/measurement.py); the model is `Asked` of fleet/bench/folder.py.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WARM_UPS = 32
"""Most requests of a client's warm-up. Assumed: opens connections and fills caches of compiled code."""

DATASETS = {"random": "random", "sharegpt": "sharegpt", "trace": "custom"}
"""vLLM's name of each kind of workload."""


@dataclass(frozen=True)
class Run:
    """All clients once, started together."""

    index: int
    """From 0, over all points and repeats."""
    point: int
    repeat: int
    connections: int
    """Requests in flight of all clients together."""
    clients: int
    first_prompt: int
    """Prompts of earlier runs."""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"point-{self.point:02d}-repeat-{self.repeat}"

    def connections_of(self, client: int) -> int:
        """Requests that one client keeps in flight: an even share."""
        return self.connections * (client + 1) // self.clients - self.connections * client // self.clients


@dataclass(frozen=True)
class Plan:
    """The measurement."""

    name: str
    asked: dict[str, Any]
    """run.json."""
    runs: tuple[Run, ...]

    @property
    def workload(self) -> dict[str, Any]:
        """name, kind, arguments, ignore_eos."""
        found: dict[str, Any] = self.asked["workload"]
        return found

    @property
    def model(self) -> str:
        """As served."""
        return str(self.asked["served_model"])

    @property
    def prompts_per_client(self) -> int:
        """In a run."""
        return int(self.asked["prompts_per_client"])

    def seed(self, run: Run, client: int) -> int:
        """Different for every client of every run, and between measurements: a warm server has not cached the prompts."""
        first = zlib.crc32(self.name.encode()) % 2**31
        return first + run.index * max(one.clients for one in self.runs) + client


def read_plan(file: Path, name: str) -> Plan:
    """The plan in a file, for a measurement of that name."""
    asked = json.loads(file.read_text(encoding="utf-8"))
    runs: list[Run] = []
    taken = 0
    for number, point in enumerate(asked["points"]):
        for repeat in range(asked["repeats"]):
            runs.append(Run(len(runs), number, repeat, point["connections"], point["clients"], taken))
            taken += point["clients"] * asked["prompts_per_client"]
    return Plan(name, asked, tuple(runs))


@dataclass(frozen=True)
class ClientFiles:
    """Paths of one client's files: results in the run's folder, the rest beside it."""

    kept: Path
    scratch: Path
    client: int

    @property
    def result(self) -> Path:
        """The client's own result."""
        return self.kept / f"client-{self.client:03d}.json"

    @property
    def witness(self) -> Path:
        """The witness file."""
        return self.kept / f"client-{self.client:03d}.witness.json"

    @property
    def log(self) -> Path:
        """The client's log."""
        return self.kept / f"client-{self.client:03d}.log"

    @property
    def requests(self) -> Path:
        """Its part of a dataset."""
        return self.scratch / f"client-{self.client:03d}.jsonl"

    @property
    def ready(self) -> Path:
        """Written by the client before the start."""
        return self.scratch / f"client-{self.client:03d}.ready"

    @property
    def go(self) -> Path:
        """Written for all clients: the common start, in epoch seconds."""
        return self.scratch / "go"


def client_command(plan: Plan, run: Run, files: ClientFiles, *, endpoint: str, tokenizer: str) -> list[str]:
    """One client's command: vLLM's own benchmark within bench_client."""
    client, seed = files.client, plan.seed(run, files.client)
    connections = run.connections_of(client)
    metadata = {
        "run": plan.name,
        "point": run.point,
        "repeat": run.repeat,
        "client": client,
        "clients": run.clients,
        "seed": seed,
    }
    return [
        *(sys.executable, "-m", f"{__package__}.bench_client"),
        f"--witness={files.witness}",
        f"--go-file={files.go}",
        f"--ready-file={files.ready}",
        f"--client={client}",
        "--",
        "--backend=openai",
        f"--base-url={endpoint}",
        "--endpoint=/v1/completions",
        f"--model={plan.model}",
        f"--tokenizer={tokenizer}",
        *_requests(plan.workload, files.requests),
        f"--num-prompts={plan.prompts_per_client}",
        f"--num-warmups={min(connections, WARM_UPS)}",
        f"--max-concurrency={connections}",
        f"--seed={seed}",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        "--metric-percentiles=50,90,99",
        "--save-result",
        "--save-detailed",
        f"--result-dir={files.kept}",
        f"--result-filename={files.result.name}",
        "--metadata",
        *(f"{key}={value}" for key, value in metadata.items()),
    ]


def _requests(workload: dict[str, Any], part: Path) -> list[str]:
    """Options for the source of the requests; `part` holds the client's part of a dataset."""
    arguments = {"dataset-name": DATASETS[workload["kind"]], **workload["arguments"]}
    options = [f"--{key}={value}" if value else f"--{key}" for key, value in arguments.items()]
    if workload["kind"] != "random":
        options.append(f"--dataset-path={part}")
    if workload["kind"] == "trace":
        # Requests unchanged from the file, with their lengths; raw text for the endpoint.
        options += ["--custom-output-len=-1", "--skip-chat-template", "--disable-shuffle"]
    return [*options, "--ignore-eos"] if workload["ignore_eos"] else options
