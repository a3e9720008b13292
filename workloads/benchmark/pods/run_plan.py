"""run.json as a list of runs with the clients of each.

run.json is the model `Asked` of fleet/bench/folder.py; only what the pods need is read here, and checked, because the standard
library has no models.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
KINDS = ("random", "shared-prefix", "sharegpt", "trace")
WARM_UPS = 32
"""Most requests of a client's warm-up. Assumed: opens connections and fills caches of compiled code."""


class PlanError(Exception):
    """run.json is invalid; the message has the key, its value and what is allowed."""


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
    """Client processes of all pods together."""
    first_prompt: int
    """Prompts of earlier runs."""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"point-{self.point:02d}-repeat-{self.repeat}"


@dataclass(frozen=True)
class Plan:
    """The measurement."""

    name: str
    asked: dict[str, Any]
    """The whole of run.json."""
    model: str
    workload: str
    kind: str
    arguments: dict[str, str]
    ignore_eos: bool
    prompts_per_client: int
    pods: int
    runs: tuple[Run, ...]

    @property
    def first_seed(self) -> int:
        """Differs between measurements, so that a warm server has not cached the prompts."""
        return zlib.crc32(self.name.encode()) % 2**31

    def seed(self, run: Run, client: int) -> int:
        """Different for every client of every run."""
        return self.first_seed + run.index * max(one.clients for one in self.runs) + client

    def clients_of(self, run: Run, pod: int) -> range:
        """A pod's clients. Where there are fewer clients than pods, the first pods have one each and the others none."""
        pods = min(self.pods, run.clients)
        return share(run.clients, pods, pod) if pod < pods else range(0)

    def connections_of(self, run: Run, client: int) -> int:
        """Requests that one client keeps in flight."""
        return len(share(run.connections, run.clients, client))


def share(total: int, parts: int, index: int) -> range:
    """One of `parts` even, consecutive parts of 0..total-1."""
    return range(total * index // parts, total * (index + 1) // parts)


def read_plan(file: Path, name: str) -> Plan:
    """The plan in a file, for a measurement of that name. Raises PlanError."""
    try:
        asked = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise PlanError(f"{file} is not JSON: {error}") from None
    top = _Part(file, "", asked)
    if top.get("schema", int) != SCHEMA:
        raise PlanError(f"{file}: schema is {asked['schema']!r}; these programs read schema {SCHEMA}")
    workload = _Part(file, "workload.", top.get("workload", dict))
    kind = workload.get("kind", str)
    if kind not in KINDS:
        raise PlanError(f"{file}: workload.kind is {kind!r}; allowed: {', '.join(KINDS)}")
    prompts, repeats = top.at_least_one("prompts_per_client"), top.at_least_one("repeats")
    points = [_Part(file, f"points[{n}].", point) for n, point in enumerate(top.get("points", list))]
    if not points:
        raise PlanError(f"{file}: points is empty; a measurement has one at least")
    runs: list[Run] = []
    taken = 0
    for number, point in enumerate(points):
        connections, clients = point.at_least_one("connections"), point.at_least_one("clients")
        if connections < clients:
            raise PlanError(
                f"{file}: points[{number}].connections is {connections}, less than its {clients} clients; "
                "every client needs one at least"
            )
        for repeat in range(repeats):
            runs.append(Run(len(runs), number, repeat, connections, clients, taken))
            taken += clients * prompts
    return Plan(
        name=name,
        asked=asked,
        model=top.get("served_model", str),
        workload=workload.get("name", str),
        kind=kind,
        arguments={str(key): str(value) for key, value in workload.get("arguments", dict).items()},
        ignore_eos=workload.get("ignore_eos", bool),
        prompts_per_client=prompts,
        pods=top.at_least_one("pods"),
        runs=tuple(runs),
    )


@dataclass(frozen=True)
class _Part:
    file: Path
    where: str
    content: Any

    def get(self, key: str, kind: type) -> Any:
        if not isinstance(self.content, dict) or key not in self.content:
            raise PlanError(f"{self.file}: {self.where}{key} is missing")
        value = self.content[key]
        # True is an int in Python.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise PlanError(f"{self.file}: {self.where}{key} is {value!r}; a value of type {kind.__name__} is needed")
        return value

    def at_least_one(self, key: str) -> int:
        value: int = self.get(key, int)
        if value < 1:
            raise PlanError(f"{self.file}: {self.where}{key} is {value}; 1 is the least")
        return value


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
        """Its slice of a dataset."""
        return self.scratch / f"client-{self.client:03d}.jsonl"

    @property
    def ready(self) -> Path:
        """Written by the client before the barrier."""
        return self.scratch / f"client-{self.client:03d}.ready"

    @property
    def go(self) -> Path:
        """Written for all clients of this pod: the common start, in epoch seconds."""
        return self.scratch / "go"

    @property
    def summary(self) -> Path:
        """The client's totals."""
        return self.scratch / f"client-{self.client:03d}.summary.json"


def client_command(plan: Plan, run: Run, pod: int, files: ClientFiles, *, endpoint: str, tokenizer: str) -> list[str]:
    """One client's command: vLLM's own benchmark within bench_client."""
    client = files.client
    connections = plan.connections_of(run, client)
    metadata = {
        "run": plan.name,
        "point": run.point,
        "repeat": run.repeat,
        "client": client,
        "clients": run.clients,
        "workload": plan.workload,
        "seed": plan.seed(run, client),
    }
    return [
        *(sys.executable, "-m", f"{__package__}.bench_client"),
        f"--witness={files.witness}",
        f"--go-file={files.go}",
        f"--ready-file={files.ready}",
        f"--summary={files.summary}",
        f"--client={client}",
        f"--pod={pod}",
        "--",
        "--backend=openai",
        f"--base-url={endpoint}",
        "--endpoint=/v1/completions",
        f"--model={plan.model}",
        f"--tokenizer={tokenizer}",
        *_requests(plan, files.requests),
        f"--num-prompts={plan.prompts_per_client}",
        f"--num-warmups={min(connections, WARM_UPS)}",
        f"--max-concurrency={connections}",
        f"--seed={plan.seed(run, client)}",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        "--metric-percentiles=50,90,99",
        "--save-result",
        "--save-detailed",
        f"--result-dir={files.kept}",
        f"--result-filename={files.result.name}",
        "--metadata",
        *(f"{key}={value}" for key, value in metadata.items()),
    ]


def _requests(plan: Plan, dataset: Path) -> list[str]:
    ignore = ["--ignore-eos"] if plan.ignore_eos else []
    if plan.kind == "random":
        source = ["--dataset-name=random"]
    elif plan.kind == "sharegpt":
        source = ["--dataset-name=sharegpt", f"--dataset-path={dataset}"]
    else:
        # Requests unchanged from the file, with their lengths; raw text for the endpoint.
        source = [
            "--dataset-name=custom",
            f"--dataset-path={dataset}",
            "--custom-output-len=-1",
            "--skip-chat-template",
            "--disable-shuffle",
        ]
    # The options of a shared prefix were used to write the file.
    made = plan.kind in ("shared-prefix", "trace")
    given = {
        key: value
        for key, value in plan.arguments.items()
        if key not in ("dataset-name", "dataset-path", "ignore-eos")
        and not (made and key.startswith(("random-", "custom-")))
    }
    return [*source, *(f"--{key}={value}" if value else f"--{key}" for key, value in given.items()), *ignore]
