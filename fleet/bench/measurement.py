"""A measurement: many clients' results as one.

Rates are per second. Times are seconds since 1970 by the wall clock. Latencies are milliseconds, over all successful requests of all
clients pooled.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.bench.folder import Asked


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


class Distribution(_Part):
    """Exact statistics of pooled values; percentiles with numpy's linear interpolation."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    curve: tuple[float, ...]
    """Percentiles 0 to 100."""


class Latencies(_Part):
    """Milliseconds. ITL is between chunks: with speculative decoding a chunk carries several tokens."""

    ttft: Distribution
    tpot: Distribution | None
    itl: Distribution | None
    e2e: Distribution


class Goodput(_Part):
    """Requests within the limits of run.json."""

    share: float
    """Of all requests, failed ones included."""
    requests_per_s: float
    """Good requests a second that ended in the steady window, else in the common one or the whole run."""


class ErrorKind(_Part):
    """Failed requests of one kind."""

    kind: str
    """`connection`, `timeout`, `http 503`, `cut`, `open files`, `other`."""
    count: int
    example: str


class ClientResult(_Part):
    """One client process."""

    client: int
    connections: int
    completed: int
    failed: int
    total_tokens_per_s: float
    """Over the client's own time."""
    chunks_per_s: float
    cpu_share_mean: float
    cpu_share_peak: float
    """Of one core; within the steady window."""
    loop_lag_p99_ms: float


class Prompts(_Part):
    """Uniqueness of the prompts, by their hashes."""

    known: int
    repeated: int
    """Sent before by any client in any run."""


class Lengths(_Part):
    """Requested and received lengths of successful requests."""

    input_mean: float
    input_min: int
    input_max: int
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
    kv_peak: float
    """Share of the KV cache in use, 0 to 1."""
    tflops_mean: float | None
    """Of a GPU, from vLLM's MFU metrics; rough for a hybrid model. None: not collected."""


class ServerMetrics(_Part):
    """Figures of the servers' metrics."""

    servers: int
    engines: tuple[EngineResult, ...]
    acceptance_rate: float | None
    """Accepted over drafted tokens, all servers, 0 to 1. None without speculation."""
    prefix_hit_share: float | None
    """Prompt tokens found in the prefix cache, over those looked up."""
    preemptions: float
    generation_tokens: float
    """Generated in the whole run by all servers; more than the clients' count means other traffic."""
    cache_config: dict[str, str]
    """Labels of vllm:cache_config_info, of one server."""
    cache_spread: float
    """How much more blocks the largest cache has than the smallest, as a share; infinite where another label differs."""


class GpuReading(_Part):
    """One quantity over all GPUs during the steady window."""

    name: str
    """`power_watts`, `sm_active_share`, `tensor_active_share`, `dram_active_share`, ..."""
    mean: float
    peak: float
    gpus: int


class Gpus(_Part):
    """Readings of the GPUs."""

    readings: tuple[GpuReading, ...]
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
    whole: Rates
    """From the first request to the last answer."""
    common: Rates | None
    """While every client was active: from the latest first request to the earliest last answer. None: they never all were."""
    steady: Rates | None
    """The common window without warm-up and tail: the figure that is certified. None: never steady."""
    summed: SummedRates
    latencies: Latencies
    goodput: Goodput | None
    lengths: Lengths
    timeline: Timeline
    in_flight_mean_steady: float | None
    server: ServerMetrics | None
    gpus: Gpus | None

    @property
    def title(self) -> str:
        """The run for a reader: loads and repeats count from 1."""
        return f"load {self.point + 1}, repeat {self.repeat + 1}"

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
    total_tokens_per_s: Estimate
    output_tokens_per_s: Estimate
    requests_per_s: Estimate
    latencies: Latencies
    """All repeats pooled."""
    usd_per_million_tokens: float | None


class Measurement(_Part):
    """All that was measured."""

    asked: Asked
    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    points: Annotated[tuple[Point, ...], Field(min_length=1)]
    prompts: Prompts
    missing: tuple[str, ...]
    """Runs and clients of run.json that are not there."""
    remarks: tuple[str, ...]
    """Remarks on the merge."""


class Check(_Part):
    """One condition of a certificate."""

    id: str
    title: str
    verdict: Literal["passed", "failed", "not measured"]
    found: str
    """The figure nearest to its bound, or beyond it, and where."""
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
