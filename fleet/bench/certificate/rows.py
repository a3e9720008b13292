"""The sixteen conditions, each a row: figures with their bounds, and fixed words. The order is that of causes: the first that fails is
the reason of a measurement that is not certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import expm1, inf, sqrt
from statistics import median
from typing import Final, Literal

from fleet.bench.certificate import limits
from fleet.bench.certificate.slope import output_slope
from fleet.bench.measurement import Measurement, Point, Run, ServerMetrics
from fleet.plan.question.profiles import model_shape

Blame = Literal["client", "server", "run", "data"]
Unit = Literal["share", "cores", "ms", "s", "count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure and the bound that it is judged by."""

    value: float
    bound: float
    where: str = ""
    """Within the run."""

    @property
    def excess(self) -> float:
        """Above 1: beyond the bound, where that is the most allowed."""
        return self.value / self.bound if self.bound else inf if self.value else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One condition. Whatever has no figure was not measured."""

    id: str
    title: str
    figures: Callable[[Measurement, Run], Iterator[Figure]] | Callable[[Measurement, Point], Iterator[Figure]]
    """Of one run, or of one load."""
    of: Literal["run", "load"] = "run"
    unit: Unit
    is_least: bool = False
    """Whether the bound is the least allowed instead of the most."""
    allowed: str
    why: str
    blames: Blame
    of_late_client: Callable[[Run], bool] = lambda _: False
    """Whether a client at its limit explains what this row found in a run. Beside such a client it is blamed instead."""
    required: bool = True


def share(part: float, whole: float) -> float:
    """One number over another; 0/0 is 0, anything else over 0 infinite."""
    return part / whole if whole else inf if part else 0.0


def percent(value: float) -> str:
    """A limit as text."""
    return f"{100 * value:g} %"


def read_servers(measurement: Measurement, run: Run) -> ServerMetrics | None:
    """The servers' metrics, where every engine was read."""
    server, replicas = run.server, measurement.asked.shape.replicas
    engines = replicas * measurement.asked.engines_per_replica
    return server if server is not None and (server.servers, len(server.engines)) == (replicas, engines) else None


# The clients ----------------------------------------------------------------------------------------------------------


def _complete(measurement: Measurement, point: Point) -> Iterator[Figure]:
    others = tuple(f"point-{one.point:02d}-" for one in measurement.points if one.point != point.point)
    missing = [name for name in measurement.missing if not name.startswith(others)]
    yield Figure(len(missing), 0, "; ".join(missing[:2]))


def _cpu(_: Measurement, run: Run) -> Iterator[Figure]:
    for client in run.clients:
        yield Figure(client.cpu_share_mean, limits.CLIENT_CPU_LIMIT, f"client {client.client}, mean")
        yield Figure(client.cpu_share_peak, limits.CLIENT_CPU_PEAK_LIMIT, f"client {client.client}, in one second")


def lag_limit_ms(run: Run) -> float:
    """Allowed event-loop lag: a share of the median time between chunks, or of the TTFT without any.

    Where a proxy gathers chunks, most arrive together and their median distance is near 0: the mean counts then.
    """
    chunks = run.latencies.itl or run.latencies.ttft
    together = run.latencies.itl is not None and chunks.p50 < limits.TOGETHER_SHARE * chunks.mean
    return max(limits.LAG_FLOOR_MS, limits.LAG_SHARE_OF_ITL * (chunks.mean if together else chunks.p50))


def _lag(_: Measurement, run: Run) -> Iterator[Figure]:
    for client in run.clients:
        yield Figure(client.loop_lag_p99_ms, lag_limit_ms(run), f"client {client.client}")


def _client_balance(_: Measurement, run: Run) -> Iterator[Figure]:
    rates = [share(client.total_tokens_per_s, client.connections) for client in run.clients]
    for client, rate in zip(run.clients, rates, strict=True):
        allowed = limits.CLIENT_BALANCE + 3 / sqrt(max(1, client.completed))
        yield Figure(abs(share(rate, median(rates)) - 1), allowed, f"client {client.client}")


# The data -------------------------------------------------------------------------------------------------------------


def _prompts(measurement: Measurement, _: Point) -> Iterator[Figure]:
    # Over the whole measurement: a prompt of another load also warms the cache.
    prompts = measurement.prompts
    if measurement.asked.workload.of_a_file:
        yield Figure(0, 0, f"of a file; {prompts.repeated:,} of {prompts.known:,} had been sent before")
    else:
        yield Figure(prompts.repeated, _repeats_allowed(measurement), f"of {prompts.known:,}")


def _repeats_allowed(measurement: Measurement) -> float:
    """Random prompts that may repeat: those that do by chance, plus a share of all or of one client's."""
    runs, known = measurement.runs, max(1, measurement.prompts.known)
    a_clients = min(client.completed + client.failed for run in runs for client in run.clients)
    # vLLM's random prompts are consecutive tokens: there are as many as first tokens and lengths. Source: RandomDataset of 0.18.1.
    lengths = max(run.lengths.input_max for run in runs) - min(run.lengths.input_min for run in runs)
    different = _vocabulary(measurement.asked.shape.model) * max(1, lengths + 1)
    mean = max(0.0, known + different * expm1(-known / different))
    excuse = min(limits.REPEATED_SHARE * known, limits.REPEATED_OF_A_CLIENT * a_clients)
    return excuse + mean + limits.REPEATED_DEVIATIONS * sqrt(mean)


def _vocabulary(model: str) -> int:
    try:
        return model_shape(model).vocabulary
    except LookupError:
        return limits.SMALLEST_VOCABULARY


def _prefix_hits(measurement: Measurement, run: Run) -> Iterator[Figure]:
    server, prompts, workload = read_servers(measurement, run), measurement.prompts, measurement.asked.workload
    if server is None or server.prefix_hit_share is None:
        return
    if workload.of_a_file:
        # The pod sends every line once before any again, so repeats mean that the file was too short. ShareGPT's prompts are made unique
        # first; a trace may hold one several times.
        own = limits.OWN_REPEATS_SHARE if workload.kind == "trace" else limits.REPLAYED_SHARE
        allowed = limits.REPLAYED_SHARE if share(prompts.repeated, prompts.known) > own else 1.0
    else:
        # A client's warm-up sends its first prompt, which is then sent again: one hit for each client.
        prefix = int(workload.arguments.get("random-prefix-len", "0"))
        warm_up = 1 / measurement.asked.prompts_per_client
        allowed = min(1.0, limits.HITS_SHARE + warm_up + share(prefix, run.lengths.input_mean))
    yield Figure(server.prefix_hit_share, allowed)


def _lengths(measurement: Measurement, run: Run) -> Iterator[Figure]:
    shorter = run.lengths.output_shorter if measurement.asked.workload.ignore_eos else 0
    yield Figure(run.lengths.output_longer + shorter, 0, f"of {run.completed:,} answers")


def _failures(_: Measurement, run: Run) -> Iterator[Figure]:
    kinds = ", ".join(f"{error.count:,} {error.kind}" for error in run.errors[:4])
    yield Figure(share(run.failed, run.completed + run.failed), limits.FAILED_SHARE, kinds)


def _only_unread(run: Run) -> bool:
    """Whether every failed request is one that a late client opens, awaits or reads too late."""
    return all(error.kind in ("connection", "timeout", "cut", "no json") for error in run.errors)


# The run --------------------------------------------------------------------------------------------------------------


def _in_flight(_: Measurement, run: Run) -> Iterator[Figure]:
    if run.in_flight_mean_steady is not None:
        yield Figure(share(run.in_flight_mean_steady, run.connections), limits.IN_FLIGHT_SHARE)


def _steady(_: Measurement, run: Run) -> Iterator[Figure]:
    least = max(limits.STEADY_SECONDS, limits.STEADY_REQUESTS * run.latencies.e2e.p50 / 1e3)
    yield Figure(run.steady.seconds if run.steady else 0.0, least)


def _drift(_: Measurement, run: Run) -> Iterator[Figure]:
    slope = output_slope(run)
    if slope is not None:
        yield Figure(abs(slope.share), max(limits.DRIFT_SHARE, min(slope.noise, limits.DRIFT_MOST)))


def _repeats(_: Measurement, point: Point) -> Iterator[Figure]:
    total = point.total_tokens_per_s
    if total.repeats >= limits.LEAST_REPEATS and total.variation is not None:
        yield Figure(abs(total.variation), limits.VARIATION_LIMIT)


def _foreign(measurement: Measurement, run: Run) -> Iterator[Figure]:
    server, window = read_servers(measurement, run), run.looked_at
    if server is None:
        return
    ours = run.whole.output_tokens_per_s * run.whole.seconds
    yield Figure(abs(share(server.generation_tokens, ours) - 1), limits.FOREIGN_SHARE, "generated tokens")
    read, made = (sum(getattr(one, f"{name}_tokens") for one in server.engines) for name in ("prompt", "generation"))
    sent = share(window.input_tokens_per_s, window.output_tokens_per_s)
    allowed = limits.FOREIGN_PROMPTS_SHARE + share(limits.READINGS_S, window.seconds)
    allowed += share(2, window.requests_per_s * window.seconds)
    yield Figure(abs(share(share(read, made), sent) - 1), allowed, "prompt tokens")


# The servers ----------------------------------------------------------------------------------------------------------


def _front_end(measurement: Measurement, run: Run) -> Iterator[Figure]:
    server = read_servers(measurement, run)
    if server is not None and run.in_flight_mean_steady is not None:
        held = sum(engine.running_mean + engine.waiting_mean for engine in server.engines)
        yield Figure(share(held, run.in_flight_mean_steady), limits.REACHED_SHARE)


def engine_spread(run: Run, server: ServerMetrics) -> float:
    """Allowed distance of an engine's tokens from the mean, as a share: chance, for connections that stick to a random server and requests
    that reach a random engine of it; ENGINE_BALANCE to ENGINE_MOST.
    """
    connections = max(1.0, run.connections / max(1, server.servers))
    served = run.steady.requests_per_s * run.steady.seconds if run.steady else 0.0
    requests = max(1.0, served / max(1, len(server.engines)))
    chance = limits.ENGINE_DEVIATIONS * sqrt(1 / connections + 1 / requests)
    return min(limits.ENGINE_MOST, max(limits.ENGINE_BALANCE, chance))


def _engines(measurement: Measurement, run: Run) -> Iterator[Figure]:
    server = read_servers(measurement, run)
    if server is None:
        return
    mean = sum(engine.generation_tokens for engine in server.engines) / len(server.engines)
    for engine in server.engines:
        off = abs(share(engine.generation_tokens, mean) - 1)
        yield Figure(off, engine_spread(run, server), f"tokens of engine {engine.engine} of {engine.server}")
    longest = max(server.engines, key=lambda engine: engine.waiting_mean)
    shortest = min(engine.waiting_mean for engine in server.engines)
    each = run.connections / len(server.engines)
    allowed = max(limits.WAITING_SHARE, share(limits.WAITING_LEAST, each))
    where = f"queue of engine {longest.engine} of {longest.server}"
    yield Figure(share(longest.waiting_mean - shortest, each), allowed, where)
    yield Figure(server.cache_spread, limits.CACHE_SPREAD, "KV caches")


def _preemptions(measurement: Measurement, run: Run) -> Iterator[Figure]:
    server, window = read_servers(measurement, run), run.looked_at
    if server is not None:
        # Both of one window: all requests of the run would hide most of its preemptions.
        yield Figure(share(server.preemptions, window.requests_per_s * window.seconds), limits.PREEMPTED_SHARE)


ROWS: Final = (
    Row(
        id="complete",
        title="No client or run is missing",
        figures=_complete,
        of="load",
        unit="count",
        allowed="every client of every load and repeat of run.json",
        why="Without some of its clients, a measurement had a different load than it states. Fetch it again (`fleet bench fetch`), or "
        "measure again.",
        blames="data",
    ),
    Row(
        id="client-cpu",
        title="Clients had CPU to spare",
        figures=_cpu,
        unit="cores",
        allowed=f"at most {limits.CLIENT_CPU_LIMIT:g} of a core on average and {limits.CLIENT_CPU_PEAK_LIMIT:g} in any second of the "
        "steady window, each client",
        why="A client is one Python thread. At its core's limit it reads answers late: the client limits throughput and adds its delay to "
        "every latency. Use more clients: lower benchmark.connectionsPerClient.",
        blames="client",
    ),
    Row(
        id="event-loop",
        title="Event loops kept up",
        figures=_lag,
        unit="ms",
        allowed=f"lag (p99) at most {percent(limits.LAG_SHARE_OF_ITL)} of the median time between chunks, or {limits.LAG_FLOOR_MS:g} ms "
        "where that is more",
        why="A late event loop adds its lag to the latencies that it measures. Use more clients with fewer connections each: lower "
        "benchmark.connectionsPerClient.",
        blames="client",
    ),
    Row(
        id="prompts",
        title="Prompts are unique",
        figures=_prompts,
        of="load",
        unit="count",
        allowed=f"as many repeated as random drawing repeats by chance, plus {percent(limits.REPEATED_SHARE)} of all or a quarter of one "
        "client's; prompts of a file may repeat",
        why="The server reads a repeated prompt from its prefix cache, which inflates throughput. Measure again: every client of every run "
        "gets its own seed.",
        blames="data",
    ),
    Row(
        id="prefix-hits",
        title="Prefix cache hits fit the workload",
        figures=_prefix_hits,
        unit="share",
        allowed=f"random prompts: at most {percent(limits.HITS_SHARE)}, plus a shared prefix's share and the warm-up's; prompts of a file: "
        f"any share, but at most {percent(limits.REPLAYED_SHARE)} where the file was sent again",
        why="From the servers' own counters. Hits on random prompts mean that they were sent before. Hits on a file that was sent again "
        "are not real traffic: use a longer file, or lower benchmark.promptsPerClient.",
        blames="data",
        required=False,
    ),
    Row(
        id="lengths",
        title="Answers have the requested length",
        figures=_lengths,
        unit="count",
        allowed="exactly the requested length; where the model may stop by itself, none longer",
        why="Shorter answers leave room for more prompts, which are cheaper, and inflate total tok/s. Check that the server honors "
        "ignore_eos and that prompt and answer fit into --max-model-len.",
        blames="server",
    ),
    Row(
        id="failures",
        title="Requests succeeded",
        figures=_failures,
        unit="share",
        allowed=f"at most {percent(limits.FAILED_SHARE)} failed in each run",
        why="A failed request is load that was not served. Check the servers' logs for http 5xx and cut answers, and their restarts and "
        "readiness for refused connections. `no json`: a late client misread an answer; use more clients.",
        blames="server",
        of_late_client=_only_unread,
    ),
    Row(
        id="steady",
        title="The steady window is long enough",
        figures=_steady,
        unit="s",
        is_least=True,
        allowed=f"at least {limits.STEADY_SECONDS:g} s and {limits.STEADY_REQUESTS:g} median requests, without warm-up and tail",
        why="At the start all prompts arrive together, and at the end connections stand idle; neither is normal service. Raise "
        "benchmark.promptsPerClient.",
        blames="run",
    ),
    Row(
        id="in-flight",
        title="The intended load was reached",
        figures=_in_flight,
        unit="share",
        is_least=True,
        allowed=f"at least {percent(limits.IN_FLIGHT_SHARE)} of the intended requests in flight over the steady window",
        why="A rate belongs to the load it was measured at. Fewer requests in flight mean clients too slow to send, or too few prompts: "
        "raise benchmark.promptsPerClient.",
        blames="run",
        of_late_client=lambda _: True,
    ),
    Row(
        id="foreign-traffic",
        title="The servers had no other traffic",
        figures=_foreign,
        unit="share",
        allowed=f"servers' count of generated tokens within {percent(limits.FOREIGN_SHARE)} of the clients'; prompt tokens per generated "
        f"token within {percent(limits.FOREIGN_PROMPTS_SHARE)}, two requests and {limits.READINGS_S:g} s of the window",
        why="Other requests take time that this measurement does not count: keep users away while it runs. A count below the clients' "
        "means servers that were not read or that restarted. A difference in prompts alone means the wrong tokenizer: use the model's.",
        blames="run",
    ),
    Row(
        id="drift",
        title="The rate is stable over the window",
        figures=_drift,
        unit="share",
        allowed=f"output tok/s with a slope of at most {percent(limits.DRIFT_SHARE)} over the window, or within its noise; never above "
        f"{percent(limits.DRIFT_MOST)}",
        why="The mean of a rate that still rises or falls depends on when the run ended. Raise benchmark.promptsPerClient. A falling rate "
        "can be heat or a filling cache. Only output is checked: input comes in waves.",
        blames="run",
    ),
    Row(
        id="engine-balance",
        title="Engines are equal, and load is balanced over them",
        figures=_engines,
        unit="share",
        allowed=f"tokens of each engine within {percent(limits.ENGINE_BALANCE)} of the mean, more by chance with few connections; no "
        f"queue longer than another by {percent(limits.WAITING_SHARE)} of an engine's requests; caches within "
        f"{percent(limits.CACHE_SPREAD)}",
        why="The article's run crashed with 801 requests queued on one engine beside an idle one. With such imbalance the router limits "
        "the rate. Check replicas that are not Ready, sticky connections, and the gateway's scorers; restart the server whose cache "
        "differs.",
        blames="server",
    ),
    Row(
        id="front-end",
        title="Requests reached the engines",
        figures=_front_end,
        unit="share",
        is_least=True,
        allowed=f"{percent(limits.REACHED_SHARE)} or more of the requests in flight run or wait on the engines",
        why="Requests in flight that are on no engine wait in an API server process at its core's limit, or in a gateway's queue, and the "
        "first token is late by that wait. Check the CPU of both, and raise apiServerCount: one for about 40,000 tokens/s.",
        blames="server",
        # It counts requests as in flight that the engines have answered.
        of_late_client=lambda _: True,
    ),
    Row(
        id="client-balance",
        title="Clients performed alike",
        figures=_client_balance,
        unit="share",
        allowed=f"each within {percent(limits.CLIENT_BALANCE)} of the median client's rate per connection, and three standard errors of "
        "its number of requests",
        why="All clients draw from one workload and call one address. A slower one reached other servers, or was delayed. Check its log, "
        "and the balance of the engines.",
        blames="run",
    ),
    Row(
        id="preemptions",
        title="Engines did not preempt requests",
        figures=_preemptions,
        unit="share",
        allowed=f"at most {percent(limits.PREEMPTED_SHARE)} of the requests that ended in the steady window",
        why="A preempted request is computed again: the KV cache is too small for this load. Lower the load or --max-num-seqs, or enlarge "
        "the cache.",
        blames="server",
    ),
    Row(
        id="repeats",
        title="Repeats agree",
        figures=_repeats,
        of="load",
        unit="share",
        allowed=f"at least {limits.LEAST_REPEATS} repeats of every load, with a standard deviation of at most "
        f"{percent(limits.VARIATION_LIMIT)} of the mean",
        why="One run has no spread. Set benchmark.repeats. If repeats differ, check what changed between them (nodes, prefix cache, "
        "neighbors).",
        blames="run",
    ),
)
