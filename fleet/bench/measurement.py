"""A measurement: many clients' results as one. The models of merged.json.

Rates are per second. Times are seconds since 1970 by the wall clock, or seconds since the first request where no client's wall clock
is known. Latencies are milliseconds, over all successful requests of all clients pooled.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.bench.folder import Asked, AskedSlo


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rates(_Part):
    """Throughput over one window."""

    began: float
    ended: float
    seconds: float
    total_tokens_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    requests_per_s: float
    """Requests a second that ended in the window."""


class SummedRates(_Part):
    """The article's way: sum of each client's rate over its own time. Too high where clients do not overlap."""

    total_tokens_per_s: float
    output_tokens_per_s: float
    requests_per_s: float


class Histogram(_Part):
    """Counts between edges; there is one more edge than counts."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class Distribution(_Part):
    """Exact statistics of pooled values; percentiles with numpy's linear interpolation."""

    count: int
    mean: float
    std: float
    min: float
    p10: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float
    histogram: Histogram


class Latencies(_Part):
    """Milliseconds. ITL is between chunks: with speculative decoding a chunk carries several tokens."""

    ttft: Distribution
    tpot: Distribution | None
    itl: Distribution | None
    e2e: Distribution


class Goodput(_Part):
    """Requests within the limits."""

    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    requests: int
    share: float
    """Of all requests, failed ones included."""
    requests_per_s: float
    """In the steady window, else in the common one or the whole run."""
    output_tokens_per_s: float


class ErrorKind(_Part):
    """Failed requests of one kind."""

    kind: str
    """`connection`, `timeout`, `http 503`, `cut`, `open files`, `other`."""
    count: int
    example: str


class ClientResult(_Part):
    """One client process."""

    client: int
    pod: int | None
    node: str | None
    connections: int
    seed: int | None
    completed: int
    failed: int
    total_tokens_per_s: float
    output_tokens_per_s: float
    """Over the client's own time."""
    first_request: float
    last_end: float
    ttft_p50_ms: float
    tpot_p50_ms: float | None
    chunks_per_s: float
    """Mean over the client's own time."""
    cpu_share_mean: float | None
    cpu_share_peak: float | None
    """Of one core; within the steady window. None: no witness."""
    loop_lag_p99_ms: float | None
    open_files_peak: int | None
    open_files_limit: int | None
    go_at: float | None
    released_at: float | None


class Prompts(_Part):
    """Uniqueness of the prompts, by their hashes."""

    known: int
    """Prompts whose hash is known."""
    repeated: int
    """Of these, sent before by any client in any run."""


class Lengths(_Part):
    """Requested and received lengths of successful requests."""

    asked_known: bool
    """Whether the requested length of each answer is known."""
    input_mean: float
    input_min: int
    input_max: int
    output_mean: float
    output_min: int
    output_max: int
    output_shorter: int
    """Answers shorter than requested."""
    output_longer: int


class Timeline(_Part):
    """Second by second over the whole run; all lists are equally long."""

    at: tuple[float, ...]
    """Begin of each second, seconds since the first request."""
    total_tokens_per_s: tuple[float, ...]
    output_tokens_per_s: tuple[float, ...]
    in_flight: tuple[float, ...]
    """Mean number of requests in flight in that second."""


class Batches(_Part):
    """The steady window in equal pieces: how much a rate varies within one run."""

    seconds: float
    """Length of a piece."""
    total_tokens_per_s: tuple[float, ...]
    drift_share: float
    """Slope of a line through the pieces times the window, as a share of the mean: 0.05 is 5 % more at the end."""


class EngineResult(_Part):
    """One data-parallel rank of one server during the run's steady window, from its /metrics."""

    server: str
    engine: str
    generation_tokens: float
    """During the window."""
    prompt_tokens: float
    running_mean: float
    running_peak: float
    waiting_mean: float
    waiting_peak: float
    kv_mean: float
    """Share of the KV cache in use, 0 to 1."""
    kv_peak: float
    preemptions: float
    tflops_mean: float | None
    """From vLLM's MFU metrics; rough for a hybrid model. None: not collected."""
    hbm_read_gb_per_s_mean: float | None


class ServerTimeline(_Part):
    """All engines together, sample by sample; all lists are equally long."""

    at: tuple[float, ...]
    """Seconds since the first request."""
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    kv_mean: tuple[float, ...]
    kv_max: tuple[float, ...]
    """Highest of any engine."""


class ServerMetrics(_Part):
    """Figures of the servers' metrics."""

    servers: int
    engines: tuple[EngineResult, ...]
    timeline: ServerTimeline
    acceptance_rate: float | None
    """Accepted over drafted tokens, all servers, 0 to 1. None without speculation."""
    mean_acceptance_length: float | None
    """Tokens a step: 1 + accepted / drafts."""
    prefix_hit_share: float | None
    """Prompt tokens found in the prefix cache, over those looked up."""
    preemptions: float
    aborted: float
    """Requests that ended with finished_reason abort or error."""
    generation_tokens: float
    """Generated in the whole run by all servers; more than the clients' count means other traffic."""
    failed_scrapes: int
    scrapes: int
    cache_config: dict[str, str]
    """Labels of vllm:cache_config_info, of one server."""
    cache_configs_differ: bool


class GpuReading(_Part):
    """One quantity over all GPUs during the steady window."""

    name: str
    """`power_watts`, `gpu_percent`, `temperature_celsius`, `tensor_active_share`, `dram_active_share`, `sm_active_share`, ..."""
    mean: float
    peak: float
    gpus: int


class GpuTimeline(_Part):
    """Power of all GPUs together, sample by sample."""

    at: tuple[float, ...]
    """Seconds since the first request."""
    watts: tuple[float, ...]


class Gpus(_Part):
    """Readings of the GPUs."""

    readings: tuple[GpuReading, ...]
    timeline: GpuTimeline | None
    watt_hours_per_million_tokens: float | None
    """GPUs alone, over the steady window."""
    problem: str | None = None


class Run(_Part):
    """One run: all clients once, started together."""

    name: str
    point: int
    repeat: int
    connections: int
    """Requests in flight that were intended, all clients together."""
    clients: tuple[ClientResult, ...]
    completed: int
    failed: int
    errors: tuple[ErrorKind, ...]
    clock: Literal["witness", "one node", "end date"]
    """How clients' times were aligned: by both clocks, recorded in every client; by one node's clock; by the date in the file, to a
    second."""
    clock_uncertainty_s: float
    whole: Rates
    """From the first request to the last answer."""
    common: Rates | None
    """While every client was active: from the latest first request to the earliest last answer. None: they never all were."""
    steady: Rates | None
    """The common window without warm-up and tail: the figure that is certified. None: never steady."""
    steady_why: str
    """How the steady window was cut, or why there is none."""
    summed: SummedRates
    latencies: Latencies
    goodput: Goodput | None
    lengths: Lengths
    timeline: Timeline
    batches: Batches | None
    in_flight_mean_steady: float | None
    start_skew_s: float
    """Between the first and the last client's first request."""
    server: ServerMetrics | None
    gpus: Gpus | None
    pod_cores: tuple[float, ...]
    """CPU that each pod could use."""
    pod_cpu_peak: tuple[float, ...]
    """Highest CPU of all clients of a pod in a second of `looked_at`, in cores."""

    @property
    def title(self) -> str:
        """The run for a reader: loads and repeats count from 1."""
        return f"load {self.point + 1}, repeat {self.repeat + 1} ({self.connections:,} in flight)"

    @property
    def looked_at(self) -> Rates:
        """The narrowest window: the one over which the clients' CPU, the servers and the GPUs are read."""
        return self.steady or self.common or self.whole


class Estimate(_Part):
    """A mean over repeats with its 95 % confidence interval; None with fewer than two repeats."""

    mean: float
    low: float | None
    high: float | None
    repeats: int
    variation: float | None
    """Standard deviation over mean."""


class Point(_Part):
    """All repeats of one load."""

    point: int
    connections: int
    runs: tuple[str, ...]
    """Names of its runs."""
    total_tokens_per_s: Estimate
    output_tokens_per_s: Estimate
    requests_per_s: Estimate
    total_tokens_per_s_per_node: float | None
    latencies: Latencies
    """All repeats pooled."""
    usd_per_million_tokens: float | None
    usd_per_million_output_tokens: float | None


class Excluded(_Part):
    """An excluded file."""

    file: str
    why: str


class Measurement(_Part):
    """All that was measured."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    asked: Asked | None
    """None: bare results, without run.json."""
    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    points: Annotated[tuple[Point, ...], Field(min_length=1)]
    prompts: Prompts
    excluded: tuple[Excluded, ...]
    remarks: tuple[str, ...]
    """Remarks on the merge."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Check(_Part):
    """One condition of a certificate."""

    id: str
    title: str
    verdict: Literal["passed", "failed", "not measured"]
    found: str
    """What was found, as text."""
    allowed: str
    why: str
    """Why it matters, and what to do."""
    blames: Literal["client", "server", "run", "data"]
    """Cause of a failure."""
    required: bool = True
    """Whether a certificate needs it: `not measured` of a required check is not certified. A failed check never is."""

    @property
    def prevents(self) -> bool:
        """Whether a measurement with it is not certified."""
        return self.verdict == "failed" or (self.verdict == "not measured" and self.required)


class Certificate(_Part):
    """Whether a measurement measured the servers and only the servers."""

    verdict: Literal["certified", "not certified"]
    headline: str
    """One line: the certified rate, or how many checks failed."""
    reason: str = ""
    """Not certified: the check that decided, with what it found."""
    checks: tuple[Check, ...]
    run: str | None = None


class Comparison(_Part):
    """Against an earlier measurement."""

    baseline: str
    quantity: str
    before: Estimate
    after: Estimate
    change_share: float
    noise_share: float
    """Half width of the difference's 95 % interval, for all loads together, as a share of the baseline."""
    verdict: Literal["regressed", "improved", "same within noise", "not comparable"]
    why: str


class MergeOptions(_Part):
    """How a folder is merged."""

    exclude: tuple[str, ...] = ()
    """Files to exclude: a path within the folder, a file's name, a pattern of either, or `reason:WORD` for all with that problem."""
    slo: AskedSlo | None = None
    """Limits of a good request; None: those of run.json."""
    allow_missing: bool = False
    """Merge even if clients, runs or run.json are missing."""


class Judged(_Part):
    """merged.json."""

    schema_: Annotated[Literal[2], Field(alias="schema")] = 2
    measurement: Measurement
    certificate: Certificate

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
