"""Estimate a fleet's throughput, latency and memory under a load, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from facts import memory
from facts.workloads import Workload, named_workload
from fleet.plan.model import latency
from fleet.plan.model.calibration import Parameters, calibration
from fleet.plan.model.departures import departures
from fleet.plan.model.deployment import Deployment, OfferedLoad, record_fleet
from fleet.plan.model.estimates import Basis, Estimate
from fleet.plan.model.fleet_rate import (
    GATEWAY_CONSTANT,
    GATEWAY_GROWING,
    GATEWAY_HALFWAY,
    FleetLoad,
    GatewayReading,
    OverloadedError,
    fleet_load,
)
from fleet.plan.model.gpu_memory import MemoryBudget, budget
from fleet.plan.model.measured import FITTED_LOADS
from fleet.plan.model.roofline import is_articles, known, planned_share

# Source: the article, phase 4: MTP-2 is the largest with a published throughput.
MOST_MEASURED_DRAFTS = 2
# Assumed: running sequences vary by about a quarter around their mean.
_NEAR_CAPTURED = 0.8
# Contention is fitted on one and two nodes.
_FEWEST_SCALED = 2
_FIRST_TOKEN_REASON = (
    f"time to first token: x/÷ {latency.FIRST_TOKEN_FACTOR:g}, because clients that send in bursts delay it"
)
_MS_PER_S = 1e3


class ContextTooShortError(ValueError):
    """The longest request exceeds `--max-model-len`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """A fleet under a load. Latencies are means unless named otherwise.

    Values are as the article's fleet, with its host time and its wait before the engines; intervals reach to one engine without them.
    """

    basis: Basis
    reasons: tuple[str, ...]
    """Differences from what was measured. Each widens the intervals."""
    factor: float | None
    """Uncertainty of each end, as a ratio; None where the fit gives the interval."""
    is_bound: bool
    """Whether the GPU was never measured, so that values are its full arithmetic and bandwidth: rates at most, latencies at least these."""
    total_tokens_per_s: Estimate
    """Input and output tokens."""
    output_tokens_per_s: Estimate
    requests_per_s: Estimate
    ttft_ms: Estimate
    """Time to first token."""
    ttft_p99_ms: Estimate
    tpot_ms: Estimate
    """Time per output token after the first."""
    in_flight: float
    seconds_per_request: float
    running_per_engine: float
    """Mean sequences per step."""
    kv_cache_peak_percent: float
    """After a burst: with as many of an engine's requests running as its limits allow."""
    tokens_per_chunk: float
    """Of a streamed chunk after the first."""
    limited_by: str
    """Limiting factor: the offered load, or a limit of the engines."""
    memory: MemoryBudget
    shortest_prompt_with_cache_hit_tokens: int | None
    """Shortest shared prefix that can hit the cache; None if prefix caching is off."""

    @property
    def label(self) -> str:
        """The basis as reports show it: `by published rows`, `roofline x/÷ 2`."""
        if self.factor is None:
            return "by published rows"
        return f"{self.basis}, upper bound" if self.is_bound else f"{self.basis} x/÷ {self.factor:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solved:
    """The planned solution, and those of other parameters that explain the measurements as well."""

    loads: tuple[FleetLoad, ...]
    """The planned one first. An interval spans them all."""
    engine: FleetLoad | None
    """The one without the losses of the article's fleet. None for a bound, and with a defect of the release, which no run has narrowed."""
    basis: Basis
    reasons: tuple[str, ...]
    widened: int
    """How many reasons widen an interval that the fit gives: not those that `loads` hold."""
    factor: float | None = None
    is_bound: bool = False

    def span(
        self,
        percent: float,
        of: Callable[[FleetLoad], float],
        *,
        low: Callable[[FleetLoad], float] | None = None,
        high: Callable[[FleetLoad], float] | None = None,
    ) -> Estimate:
        """The planned value in its interval. Of the fit, `percent` widens it, and `low` and `high` are further readings of its ends."""
        value, *others = values = [of(load) for load in self.loads]
        if self.factor is None:
            width = 1 + (percent + calibration().accuracy.per_departure_percent * self.widened) / 100
            least = min(values + ([low(load) for load in self.loads] if low else [])) / width
            most = max(values + ([high(load) for load in self.loads] if high else [])) * width
        elif not self.is_bound:
            least, most = min(values) / self.factor, max(values) * self.factor
        elif max(others) <= value:
            # The bound is its own end; the other is what measured GPUs reach.
            least, most = min(others) / self.factor, value
        else:
            least, most = value, max(others) * self.factor
        return Estimate(value=value, low=min(least, value), high=max(most, value))


def estimate(deployment: Deployment, workload: Workload, offered: OfferedLoad) -> Performance:
    """Estimate the fleet under that load. Raises DoesNotFitError, ContextTooShortError and OverloadedError."""
    check_context(deployment, workload)
    return _estimate(deployment, workload, offered)


@lru_cache(maxsize=1_024)
def _estimate(deployment: Deployment, workload: Workload, offered: OfferedLoad) -> Performance:
    room = budget(deployment, workload)
    solved = _solved(deployment, workload, offered, room)
    central, accuracy = solved.loads[0], calibration().accuracy
    if offered.requests_per_s is None:
        percent = accuracy.configuration_percent if solved.widened else accuracy.throughput_percent
        requests = solved.span(percent, lambda load: load.requests_per_s)
    else:
        requests = _exactly(offered.requests_per_s)
    # No latency was measured behind the gateway, nor with other options than the record's.
    unmeasured = deployment.routing == "inference-gateway" or (
        not solved.widened and deployment.engine != record_fleet(1).engine
    )
    timed = replace(solved, widened=solved.widened + unmeasured)
    ttft = _first_token_ms(timed)
    peak = min(central.costs.running_limit, central.engine.in_flight)
    return Performance(
        basis=solved.basis,
        reasons=solved.reasons,
        factor=solved.factor,
        is_bound=solved.is_bound,
        total_tokens_per_s=requests.times(workload.tokens_per_request),
        output_tokens_per_s=requests.times(workload.output_tokens.mean),
        requests_per_s=requests,
        ttft_ms=ttft,
        ttft_p99_ms=ttft.times(latency.FIRST_TOKEN_P99_OVER_MEAN),
        tpot_ms=timed.span(
            accuracy.tpot_percent,
            # Half of the gateway's time is spread over the tokens; none or all at the ends.
            lambda load: latency.per_token_s(load, workload, 0.5) * _MS_PER_S,
            low=lambda load: latency.per_token_s(load, workload, 0) * _MS_PER_S,
            high=lambda load: latency.per_token_s(load, workload, 1) * _MS_PER_S,
        ),
        in_flight=central.in_flight if offered.in_flight is None else offered.in_flight,
        seconds_per_request=central.seconds_per_request,
        running_per_engine=central.engine.running,
        kv_cache_peak_percent=room.used_percent(peak, workload),
        tokens_per_chunk=latency.tokens_per_chunk(central, deployment, workload),
        limited_by=_limited_by(central),
        memory=room,
        shortest_prompt_with_cache_hit_tokens=memory.shortest_prompt_prefix_caching_can_hit(deployment.layout),
    )


def _exactly(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Raise ContextTooShortError if the longest request exceeds `--max-model-len`."""
    longest, context = workload.longest_request_tokens, deployment.engine.max_model_len_tokens
    if longest > context:
        raise ContextTooShortError(
            f"the longest request has {longest:,} tokens, {longest - context:,} more than --max-model-len {context:,}"
        )


def _solved(deployment: Deployment, workload: Workload, offered: OfferedLoad, room: MemoryBudget) -> _Solved:
    solve = _by_published_rows if is_articles(deployment) else _by_roofline
    found = solve(deployment, workload, offered, room, planned_share(deployment))
    if (defect := deployment.slow_product) is None:
        return found
    ends: list[FleetLoad] = []
    for share in defect.throughput_kept:
        try:
            ends += solve(deployment, workload, offered, room, share).loads
        except OverloadedError as error:
            ends += solve(deployment, workload, OfferedLoad(requests_per_s=error.capacity_per_s), room, share).loads
    return replace(found, loads=(*found.loads, *ends), engine=None, reasons=(*found.reasons, defect.effect))


def _by_published_rows(
    deployment: Deployment, workload: Workload, offered: OfferedLoad, room: MemoryBudget, share: float
) -> _Solved:
    """The article's pair. `share`: of throughput, with a defect of the release."""
    taken = calibration()
    parameters = taken.parameters.keeping(share)

    def load(other: Parameters) -> FleetLoad:
        return _at_most(deployment, workload, offered, other.keeping(share), room, GATEWAY_HALFWAY)

    central = fleet_load(deployment, workload, offered, parameters, room)
    fitted = workload == named_workload("article") and FITTED_LOADS.get(deployment) == offered
    reasons = () if fitted else departures(deployment, workload, central.in_flight / deployment.nodes)
    loads = [central, *(load(variant) for variant in (taken.rounding if deployment.nodes > _FEWEST_SCALED else ()))]
    if deployment.routing == "inference-gateway":
        loads += [
            _at_most(deployment, workload, offered, parameters, room, gateway)
            for gateway in (GATEWAY_CONSTANT, GATEWAY_GROWING)
        ]
    engine = load(known(deployment).engine)
    if reasons:
        loads += [engine, *map(load, taken.variants.values())]
        loads += [
            _at_most(other, workload, offered, parameters, budget(other, workload), GATEWAY_HALFWAY)
            for other in _alternatives(deployment, central)
        ]
    return _Solved(loads=tuple(loads), engine=engine, basis="published", reasons=reasons, widened=len(reasons))


def _by_roofline(
    deployment: Deployment, workload: Workload, offered: OfferedLoad, room: MemoryBudget, share: float
) -> _Solved:
    """Any other model and GPU. `share`: of throughput, with a defect of the release."""
    what = known(deployment)

    def load(parameters: Parameters) -> FleetLoad:
        return _at_most(deployment, workload, offered, parameters.keeping(share), room, GATEWAY_HALFWAY)

    central = fleet_load(deployment, workload, offered, what.planned.keeping(share), room)
    other = load(what.engine if what.bound is None else what.fleet)
    return _Solved(
        loads=(central, other),
        engine=other if what.bound is None else None,
        basis=what.basis,
        reasons=(what.reason, _FIRST_TOKEN_REASON),
        widened=0,
        factor=what.line.factor,
        is_bound=what.bound is not None,
    )


def _limited_by(load: FleetLoad) -> str:
    if load.front_end_s:
        return "the API servers"
    return load.costs.limited_by if load.engine.full else "the requests offered"


def _alternatives(deployment: Deployment, central: FleetLoad) -> Iterator[Deployment]:
    """The same fleet with one assumption of the model dropped."""
    engine = deployment.engine
    if central.engine.captured and central.engine.running > _NEAR_CAPTURED * central.costs.captured_sequences:
        # Sequences vary from step to step, so some steps exceed the captured graphs before the mean does.
        yield replace(deployment, engine=replace(engine, captured_tokens=0))
    if engine.speculative_tokens > MOST_MEASURED_DRAFTS:
        # Five draft tokens were 21 % faster than one in phase 1; the model says 84 %.
        yield replace(deployment, engine=replace(engine, speculative_tokens=1))
    if engine.kv_cache_dtype in memory.TWO_BYTE_CACHES and engine.prefix_caching:
        # Why phase 2 held one more state is unknown; without prefix caching none is counted.
        yield replace(deployment, engine=replace(engine, prefix_caching=False))


def _at_most(
    deployment: Deployment,
    workload: Workload,
    offered: OfferedLoad,
    parameters: Parameters,
    room: MemoryBudget,
    gateway: GatewayReading,
) -> FleetLoad:
    """Solve with other parameters, at their capacity if the offered load exceeds it."""
    try:
        return fleet_load(deployment, workload, offered, parameters, room, gateway)
    except OverloadedError as error:
        most = OfferedLoad(requests_per_s=error.capacity_per_s)
        return fleet_load(deployment, workload, most, parameters, room, gateway)


def _first_token_ms(solved: _Solved) -> Estimate:
    """No end is below the prompt's arithmetic at the GPU's peak. Bursts delay an engine's first token by up to a factor of its own."""
    by, accuracy = latency.FIRST_TOKEN_FACTOR, calibration().accuracy

    def by_steps_ms(load: FleetLoad) -> float:
        return latency.first_token_by_steps_s(load) * _MS_PER_S

    if solved.factor is None:
        # Half of the gateway's time falls before the first token, none or all at the ends; the low end drops an unmeasured wait.
        found = solved.span(
            accuracy.ttft_percent,
            lambda load: latency.first_token_s(load, 0.5) * _MS_PER_S,
            low=(lambda load: latency.first_token_in_engine_s(load) * _MS_PER_S) if solved.widened else None,
            high=lambda load: latency.first_token_s(load, 1) * _MS_PER_S,
        )
        engine = solved.engine if solved.widened else None
    elif solved.engine is None:
        found, engine = replace(solved, factor=max(solved.factor, by)).span(0, by_steps_ms), None
    else:
        # The article's wait is a burst already, so it gets its own accuracy.
        value, engine = by_steps_ms(solved.loads[0]), solved.engine
        found = Estimate(value=value, low=value, high=value * (1 + accuracy.ttft_percent / 100))
    low, high = found.low, found.high
    if engine is not None:
        alone = by_steps_ms(engine)
        low, high = min(low, alone / by), max(high, alone * by)
    return replace(found, low=max(low, solved.loads[0].costs.prompt_floor_s * _MS_PER_S), high=high)
