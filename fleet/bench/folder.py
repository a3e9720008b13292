"""The folder of one measurement: its files and their models.

    DIR/run.json                         stack, workload and loads: `Asked`
    DIR/point-00-repeat-0/               one run: all clients once, started together
        client-000.json                  the client's own result (`vllm bench serve --save-detailed`)
        client-000.witness.json          what was seen inside the client process: `Witness`
        client-000.log
        pod.json                         the pod's course: `PodCourse`
        server-metrics.jsonl.gz          samples of every server's /metrics: one `MetricsSample` a line
    DIR/dcgm.json                        managed Prometheus' DCGM series: `DcgmSeries`

Times are seconds since 1970 by the wall clock unless a name says otherwise. The pod writes these files with the standard library.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

RUN_FILE: Final = "run.json"
METRICS_FILE: Final = "server-metrics.jsonl.gz"
POD_FILE: Final = "pod.json"
DCGM_FILE: Final = "dcgm.json"
MOST_CLIENTS: Final = 1_000
"""Of a run. Assumed: twenty times what one pod holds; more is a damaged file."""
MOST_REPEATS: Final = 1_000
"""Of a load. Assumed: fifty times what the settings allow; more is a damaged file."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


Kind = Literal["random", "sharegpt", "trace"]


NotNegative = Annotated[float, Field(ge=0)]


class AskedPoint(_File):
    """One load of a sweep."""

    connections: Annotated[int, Field(ge=1)]
    """Requests in flight, all clients together."""
    clients: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]


class AskedWorkload(_File):
    """Source of the requests."""

    name: str
    """A name of facts/data/workloads.yaml."""
    kind: Kind
    arguments: dict[str, str]
    """Options of `vllm bench serve`, without dashes in front."""
    ignore_eos: bool
    """Whether every answer has the requested length; `vllm bench serve` forces it for random prompts."""
    dataset: str | None = None
    """SHA-256 of the file that requests come from. None: no file."""

    @property
    def of_a_file(self) -> bool:
        """Whether requests come from a file, where they may repeat; else every client draws them."""
        return self.kind in ("sharegpt", "trace")


class AskedSlo(_File):
    """Limits of a good request, milliseconds; None: no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


class AskedShape(_File):
    """The configuration of the figures: fields of facts.figures.ServingShape without the dataset."""

    model: str
    engine_version: str
    machine_type: str
    replicas: Annotated[int, Field(ge=1)]
    gpus_per_replica: Annotated[int, Field(ge=1)]
    flags: dict[str, str | int | float | bool]
    env: dict[str, str]
    routing: Literal["cluster-ip", "inference-gateway", "llm-d-picker", "router", "load-balancer"]
    workload: str


class AskedCost(_File):
    """Cost of the stack during the measurement."""

    usd_per_hour: NotNegative
    at_least: bool
    """Whether prices are missing from it."""
    capacity: str
    """Key of the price: spot, cud-1y, ..."""


class Asked(_File):
    """run.json: stack, workload and loads, written by the program and completed by the pod."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: str = ""
    """Name of the measurement, also of its folder in the bucket; set when it starts."""
    created: str = ""
    """ISO 8601, UTC; set when it starts."""
    stack: str
    profile: str
    served_model: str
    model_revision: str
    image: str
    """Tag of the server's image, with its digest."""
    release: str = ""
    """SHA-256 of what may differ in a canary: settings.derived.canary.release. Empty: unknown."""
    engines_per_replica: Annotated[int, Field(ge=1)]
    """Data-parallel ranks of a server."""
    speculative_tokens: Annotated[int, Field(ge=0)]
    """Draft tokens a step; 0 without speculation."""
    workload: AskedWorkload
    points: Annotated[tuple[AskedPoint, ...], Field(min_length=1)]
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)]
    prompts_per_client: Annotated[int, Field(ge=1)]
    slo: AskedSlo | None = None
    shape: AskedShape
    cost: AskedCost | None = None

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Clock(_File):
    """Both clocks at one time, to convert monotonic times to the wall clock. All clients share one monotonic clock: that of their node."""

    wall: float
    perf_counter: float


class ClientSamples(_File):
    """Second by second from the common start to the last answer; all lists are equally long."""

    at: tuple[float, ...]
    """End of each second."""
    cpu_share: tuple[NotNegative, ...]
    """CPU time of the process in that second, in cores."""
    loop_lag_ms: tuple[NotNegative, ...]
    """Longest delay of a 20 ms tick of its event loop in that second."""


class Witness(_File):
    """client-NNN.witness.json: measurements inside one client process."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    client: int
    program: str
    """For example `vllm bench serve 0.18.1`."""
    seed: int
    clock: Clock
    loop_lag_p99_ms: NotNegative
    """Over all ticks from the common start to the last answer."""
    samples: ClientSamples
    prompt_hashes: tuple[str, ...]
    """16 hexadecimal digits of each prompt's BLAKE2b, in the order of the result's lists."""
    asked_input_tokens: tuple[int, ...]
    asked_output_tokens: tuple[int, ...]

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PodCourse(_File):
    """pod.json: the benchmark's pod in one run."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    began: float
    ended: float
    exit_codes: dict[str, int]
    """By client number."""
    notes: tuple[str, ...]

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class MetricsSample(_File):
    """One scrape of one server."""

    at: float
    server: str
    """Address of the pod."""
    values: dict[str, dict[str, float]] = {}
    """Metric -> engine (data-parallel rank as text) -> value. Series with further labels are named `metric{label=value}`."""
    info: dict[str, str] | None = None
    """Labels of vllm:cache_config_info, on a server's first sample."""
    error: str | None = None
    """Why the reading failed."""


class DcgmOne(_File):
    """One series of DCGM."""

    metric: str
    labels: dict[str, str]
    samples: tuple[tuple[float, float], ...]


class DcgmSeries(_File):
    """dcgm.json: series of managed Prometheus during the run."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    series: tuple[DcgmOne, ...]
    problem: str | None = None
    """Why series are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def as_json(file: BaseModel) -> dict[str, Any]:
    """One of these files as JSON."""
    return file.model_dump(mode="json", by_alias=True)
