"""Distribution of the benchmark's load over client processes of one pod, and its duration.

Connections per client determine the number of clients, constants of this module the duration. Nothing depends on the planner's model, so
that a better fit does not change or rename a Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from facts import ledger
from facts.sizing import BENCHMARK_MACHINES, benchmark_machine
from facts.workloads import countable_name, named_workload, tokens_per_step

if TYPE_CHECKING:
    from settings.stack import Settings

ENGINE_CONNECTIONS: Final = 250
"""Requests in flight per engine at the article's load: 2,000 per replica of eight engines."""
LOADED_REQUEST_SECONDS: Final = 24.0
"""Mean time of a request at that load; it grows with higher load. Source: 24,000 in flight at 1,103,941 tok/s and 1,152 tokens per
request is 25 s."""
ALONE_REQUEST_SECONDS: Final = 6.0
"""Mean time of one of the article's requests on an idle engine. Assumed: 384 output tokens of 16 ms; faster with drafts."""
GATEWAY_SLOWNESS: Final = 1.6
"""Factor of a request's time with the gateway. Source: the article's maximum, 37 % less throughput on eight nodes."""
NO_DRAFT_SLOWNESS: Final[float] = ledger.value("phases.figures.mtp1-095.total_tokens_per_s") / ledger.value(
    "phases.figures.no-mtp-095.total_tokens_per_s"
)
"""Factor of a request's time without drafts. Source: the article, phase 4."""
ARTICLE_REQUEST_TOKENS: Final = 1_536
"""Longest request of the article's workload in input and output tokens."""
PREPARE_SECONDS: Final = 50.0
"""Time of each run before its first and after its last request, without prompts: start, warmup, barrier, upload. Measured: 7 s of CPU to
import vLLM 0.18.1, with a margin of 8 s. Assumed: the rest, with warmup responses."""
PROMPT_SECONDS: Final = 0.014
"""Time to generate one prompt. Measured: 7 ms of CPU for `article` with a vocabulary of 130,000, vLLM 0.18.1; twice that if two clients
share a core."""
READY_MINUTES: Final = 20
"""Minimum time for clients to become ready. Assumed: a slow tokenizer takes ten times as long with 5,000 prompts."""
SLOWNESS: Final = 4.0
"""Factor of the expected time after which a run is aborted. Assumed: a server at a quarter of its speed should be measured, one at a tenth
should stop costing money."""
LEAST_RUN_MINUTES: Final = 10
"""Minimum time of a run. Assumed: a server that compiles kernels for a new load takes minutes once."""
MEMORY_SHARE: Final = 0.8
"""Share of the machine's memory that the pod requests. Source: GKE docs: 3 to 5 GiB reserved at these sizes; rounded down."""
CLIENT_GIB: Final = 1.0
"""Memory of a client before its first prompt. Measured: 0.95 GiB, vLLM 0.18.1 and a tokenizer with a vocabulary of 130,000."""
PROMPT_TOKEN_BYTES: Final = 12.0
CHUNK_BYTES: Final = 50.0
REQUEST_BYTES: Final = 6_000.0
"""Memory of a client per request until the end of the run. Measured: 8.3 kB for a prompt of 768 random tokens, 32 bytes for the time of a
chunk; the rest is text, a copy while the result is written, and objects."""
DATASET_MINUTES: Final = 20
"""Minutes for the download of a dataset. Assumed: 10 GB at 8 MB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load of the sweep."""

    connections: int
    """Requests in flight of all clients."""
    clients: int
    request_seconds: float
    """Expected mean time of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """All loads of the sweep."""

    points: tuple[LoadPoint, ...]

    @property
    def clients(self) -> int:
        """Client processes at the load that needs most."""
        return max(point.clients for point in self.points)

    @property
    def connections(self) -> int:
        """Requests in flight at the highest load."""
        return max(point.connections for point in self.points)

    @property
    def machine_type(self) -> str:
        """Machine of the one pod: the smallest with a vCPU for each client, or the largest."""
        return benchmark_machine(self.clients)


def concurrencies(settings: Settings) -> tuple[int, ...]:
    """Requests in flight per replica, load by load."""
    return settings.benchmark.concurrency or (settings.serving.concurrency_per_replica,)


def load_of(settings: Settings) -> Load:
    """The sweep's loads for every replica, each in as few clients as its connections allow."""
    benchmark, replicas = settings.benchmark, max(1, settings.replicas)
    return Load(
        points=tuple(
            LoadPoint(
                connections=per_replica * replicas,
                clients=ceil(per_replica * replicas / benchmark.connections_per_client),
                request_seconds=_request_seconds(settings, per_replica),
            )
            for per_replica in concurrencies(settings)
        )
    )


def _request_seconds(settings: Settings, per_replica: int) -> float:
    """Seconds a request takes at that many requests in flight per replica, on engines as fast as the record's.

    An engine over several GPUs counts as one: it is faster, and a run may take as long as if it were not. Longer requests take longer
    in proportion.
    """
    engines = settings.serving.engine.data_parallel_size
    load = per_replica / engines / ENGINE_CONNECTIONS
    alone, loaded = ALONE_REQUEST_SECONDS, LOADED_REQUEST_SECONDS
    longer = max(1.0, longest_request_tokens(settings) / ARTICLE_REQUEST_TOKENS)
    if settings.gateway.enabled:
        longer *= GATEWAY_SLOWNESS
    if not settings.serving.engine.speculative_tokens:
        longer *= NO_DRAFT_SLOWNESS
    return longer * max(alone + (loaded - alone) * load, loaded * load)


def pod_memory_gib(machine_type: str) -> int:
    """Memory that a pod on a machine of that type asks for, and may use."""
    return int(BENCHMARK_MACHINES[machine_type][1] * MEMORY_SHARE)


def most_prompts(settings: Settings) -> int:
    """Maximum prompts per client for the pod's memory, at the load with most clients.

    Requests of a file count like the article's; a chunk has as many accepted drafts as the article measured.
    """
    load, engine = load_of(settings), settings.serving.engine
    workload = named_workload(countable_name(settings.benchmark.workload))
    chunks = workload.output_tokens.mean / tokens_per_step(engine.speculative_tokens)
    each = REQUEST_BYTES + PROMPT_TOKEN_BYTES * workload.input_tokens.mean + CHUNK_BYTES * chunks
    free_gib = pod_memory_gib(load.machine_type) / load.clients - CLIENT_GIB
    return max(0, int(free_gib * 2**30 / each))


def longest_request_tokens(settings: Settings) -> int:
    """Input plus output tokens of the workload's longest request; the context length for a file."""
    known: int | None = ledger.entry("workloads", "workloads", settings.benchmark.workload)["longest_request_tokens"]
    return known or settings.serving.engine.context_tokens


def prepare_seconds(settings: Settings) -> float:
    """Seconds around each run, mostly to generate prompts, which every client does for each run."""
    return PREPARE_SECONDS + PROMPT_SECONDS * settings.benchmark.prompts_per_client


def ready_minutes(settings: Settings) -> int:
    """Timeout of clients to become ready, in minutes."""
    return max(READY_MINUTES, ceil(SLOWNESS * prepare_seconds(settings) / 60))


def expected_seconds(settings: Settings) -> float:
    """Expected seconds of all runs: rounds of requests, and the time around each run."""
    return settings.benchmark.repeats * sum(
        prepare_seconds(settings) + seconds for seconds in _loaded_seconds(settings)
    )


def run_minutes(settings: Settings) -> int:
    """Timeout of a run under load in minutes: four times the expected time of the longest load."""
    return max(_most_minutes(seconds) for seconds in _loaded_seconds(settings))


def longest_minutes(settings: Settings) -> int:
    """Timeout of the whole benchmark in minutes: the dataset's download and the timeouts of all runs."""
    download = DATASET_MINUTES if settings.benchmark.dataset is not None else 0
    around = ceil(SLOWNESS * prepare_seconds(settings) / 60)
    return download + settings.benchmark.repeats * sum(
        around + _most_minutes(seconds) for seconds in _loaded_seconds(settings)
    )


def _most_minutes(loaded_seconds: float) -> int:
    return max(LEAST_RUN_MINUTES, ceil(SLOWNESS * loaded_seconds / 60))


def _loaded_seconds(settings: Settings) -> list[float]:
    """Seconds under load of one run of each point, by the rounds of the client with the fewest connections."""
    prompts = settings.benchmark.prompts_per_client
    return [
        ceil(prompts / (point.connections // point.clients)) * point.request_seconds
        for point in load_of(settings).points
    ]
