"""Estimate a fleet's throughput, latency and memory under a load, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from facts import memory
from facts.releases import Defect
from facts.workloads import Workload, named_workload
from fleet.plan.model import latency
from fleet.plan.model.calibration import Accuracy, Parameters, calibration
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
    """Estimates for a fleet under a load. Latencies are means unless named otherwise."""

    total_tokens_per_s: Estimate
    """Input and output tokens."""
    output_tokens_per_s: Estimate
    requests_per_s: Estimate
    in_flight: Estimate
    seconds_per_request: Estimate
    ttft_ms: Estimate
    """Time to first token."""
    ttft_p99_ms: Estimate
    tpot_ms: Estimate
    """Time per output token after the first."""
    running_per_engine: Estimate
    """Mean sequences per step."""
    kv_cache_peak_percent: Estimate
    """After a burst: with as many of an engine's requests running as its limits allow."""
    tokens_per_chunk: float
    """Of a streamed chunk after the first."""
    limited_by: str
    """Limiting factor: the offered load, or a limit of the engines."""
    memory: MemoryBudget
    shortest_prompt_with_cache_hit_tokens: int | None
    """Shortest shared prefix that can hit the cache; None if prefix caching is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The central solution, and those of other parameters that explain the measurements as well."""

    central: FleetLoad
    others: tuple[FleetLoad, ...]
    engine: FleetLoad | None
    """As one engine, where the central one is as the article's fleet."""
    basis: Basis
    reasons: tuple[str, ...]
    accuracy: Accuracy
    factor: float | None = None
    """Uncertainty factor; None where the calibration gives the interval."""
    bound: bool = False
    """Whether the central solution is the GPU's peak, which nothing passes."""
    stated: tuple[str, ...] = ()
    """Reasons that `others` include, so that they do not widen the interval further."""

    def estimate(
        self,
        percent: float,
        of: Callable[[FleetLoad], float],
        *,
        low: Callable[[FleetLoad], float] | None = None,
        high: Callable[[FleetLoad], float] | None = None,
    ) -> Estimate:
        """The central value; its interval spans the other solutions plus `percent`. `low` and `high` override `of` at the ends."""
        loads = (self.central, *self.others)
        values = [of(load) for load in loads]
        if self.factor is None:
            width = 1 + (percent + self.accuracy.per_departure_percent * len(self.reasons)) / 100
            lowest = min(values + ([low(load) for load in loads] if low else [])) / width
            highest = max(values + ([high(load) for load in loads] if high else [])) * width
        elif self.bound:
            lowest, highest = self._beside_bound(values[0], values[1:])
        else:
            lowest, highest = min(values) / self.factor, max(values) * self.factor
        return Estimate(
            value=values[0],
            low=min(lowest, values[0]),
            high=max(highest, values[0]),
            basis=self.basis,
            reasons=(*self.reasons, *self.stated),
            factor=None if self.bound else self.factor,
            as_engine=None if self.engine is None else of(self.engine),
        )

    def _beside_bound(self, value: float, reached: list[float]) -> tuple[float, float]:
        """The bound is its own end; the other is what measured GPUs reach, by the factor."""
        assert self.factor is not None
        if max(reached) <= value:
            return min(reached) / self.factor, value
        return value, max(reached) * self.factor

    @property
    def rate_percent(self) -> float:
        """Uncertainty of throughput in percent, for measured or other options."""
        return self.accuracy.configuration_percent if self.reasons else self.accuracy.throughput_percent

    def given(self, value: float) -> Estimate:
        """A value that the question gives."""
        reasons = (*self.reasons, *self.stated)
        return Estimate(value=value, low=value, high=value, basis=self.basis, reasons=reasons)


def estimate(deployment: Deployment, workload: Workload, offered: OfferedLoad) -> Performance:
    """Estimate the fleet under that load. Raises DoesNotFitError, ContextTooShortError and OverloadedError."""
    check_context(deployment, workload)
    return _estimate(deployment, workload, offered)


@lru_cache(maxsize=1_024)
def _estimate(deployment: Deployment, workload: Workload, offered: OfferedLoad) -> Performance:
    room = budget(deployment, workload)
    frame_of = _frame if is_articles(deployment) and deployment.reading == "fleet" else _roofline_frame
    frame = frame_of(deployment, workload, offered, room, planned_share(deployment))
    if deployment.slow_product is not None:
        frame = _slowed(frame, deployment.slow_product, partial(frame_of, deployment, workload), offered, room)
    accuracy, rate_percent = frame.accuracy, frame.rate_percent
    timed, counted = _latency_frames(frame, deployment)
    if offered.requests_per_s is None:
        assert offered.in_flight is not None
        requests = frame.estimate(rate_percent, lambda load: load.requests_per_s)
        in_flight = frame.given(offered.in_flight)
    else:
        requests = frame.given(offered.requests_per_s)
        in_flight = frame.estimate(rate_percent, lambda load: load.in_flight)
    tokens = requests.map(lambda rate: rate * workload.tokens_per_request)
    peak = counted.estimate(rate_percent, lambda load: min(load.costs.running_limit, load.engine.in_flight))
    ttft = _first_token_ms(timed)
    return Performance(
        total_tokens_per_s=tokens,
        output_tokens_per_s=requests.map(lambda rate: rate * workload.output_tokens.mean),
        requests_per_s=requests,
        in_flight=in_flight,
        seconds_per_request=counted.estimate(rate_percent, lambda load: load.seconds_per_request),
        ttft_ms=ttft,
        ttft_p99_ms=ttft.map(lambda mean: mean * latency.FIRST_TOKEN_P99_OVER_MEAN),
        tpot_ms=_spread_ms(timed, accuracy.tpot_percent, lambda load, part: latency.per_token_s(load, workload, part)),
        running_per_engine=counted.estimate(rate_percent, lambda load: load.engine.running),
        kv_cache_peak_percent=peak.map(lambda running: room.used_percent(running, workload)),
        tokens_per_chunk=latency.tokens_per_chunk(frame.central, deployment, workload),
        limited_by=_limited_by(frame.central),
        memory=room,
        shortest_prompt_with_cache_hit_tokens=memory.shortest_prompt_prefix_caching_can_hit(deployment.layout),
    )


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Raise ContextTooShortError if the longest request exceeds `--max-model-len`."""
    longest, context = workload.longest_request_tokens, deployment.engine.max_model_len_tokens
    if longest > context:
        raise ContextTooShortError(
            f"the longest request has {longest:,} tokens, {longest - context:,} more than --max-model-len {context:,}"
        )


def _frame(
    deployment: Deployment, workload: Workload, offered: OfferedLoad, room: MemoryBudget, share: float
) -> _Frame:
    """The article's pair. `share`: of throughput, with a defect of the release."""
    taken = calibration()
    parameters = taken.parameters.keeping(share)

    def load(other: Parameters) -> FleetLoad:
        return _at_most(deployment, workload, offered, other.keeping(share), room, GATEWAY_HALFWAY)

    central = fleet_load(deployment, workload, offered, parameters, room)
    per_node = central.in_flight / deployment.nodes
    fitted = workload == named_workload("article") and FITTED_LOADS.get(deployment) == offered
    reasons = () if fitted else departures(deployment, workload, per_node)
    others = [load(variant) for variant in (taken.rounding if deployment.nodes > _FEWEST_SCALED else ())]
    if deployment.routing == "inference-gateway":
        others += [
            _at_most(deployment, workload, offered, parameters, room, gateway)
            for gateway in (GATEWAY_CONSTANT, GATEWAY_GROWING)
        ]
    engine = load(known(deployment).engine)
    if reasons:
        others += [engine, *map(load, taken.variants.values())]
        others += [
            _at_most(other, workload, offered, parameters, budget(other, workload), GATEWAY_HALFWAY)
            for other in _alternatives(deployment, central)
        ]
    return _Frame(
        central=central,
        others=tuple(others),
        engine=engine,
        basis="fitted" if fitted else "extrapolated" if reasons else "predicted",
        reasons=reasons,
        accuracy=taken.accuracy,
    )


def _roofline_frame(
    deployment: Deployment, workload: Workload, offered: OfferedLoad, room: MemoryBudget, share: float
) -> _Frame:
    """Any other model and GPU. `share`: of throughput, with a defect of the release."""
    what, reading = known(deployment), deployment.reading

    def load(parameters: Parameters) -> FleetLoad:
        return _at_most(deployment, workload, offered, parameters.keeping(share), room, GATEWAY_HALFWAY)

    central = fleet_load(deployment, workload, offered, what.planned(reading).keeping(share), room)
    engine = load(what.engine) if reading == "fleet" and what.bound is None else None
    reached = (load(what.reached(reading)),) if what.bound is not None else ()
    return _Frame(
        central=central,
        others=(*reached, *([] if engine is None else [engine])),
        engine=engine,
        basis=what.basis,
        reasons=(what.reason, _FIRST_TOKEN_REASON),
        accuracy=calibration().accuracy,
        factor=what.line.factor,
        bound=what.bound is not None,
    )


def _slowed(
    frame: _Frame,
    defect: Defect,
    frame_of: Callable[[OfferedLoad, MemoryBudget, float], _Frame],
    offered: OfferedLoad,
    room: MemoryBudget,
) -> _Frame:
    """The frame between both ends of what a defect leaves, which no run has narrowed: not as one engine either."""
    ends: list[FleetLoad] = []
    for share in defect.throughput_kept:
        try:
            end = frame_of(offered, room, share)
        except OverloadedError as error:
            end = frame_of(OfferedLoad(requests_per_s=error.capacity_per_s), room, share)
        ends += [end.central, *end.others]
    return replace(
        frame,
        others=(*frame.others, *ends),
        engine=None,
        basis="extrapolated" if frame.basis in ("fitted", "predicted") else frame.basis,
        stated=(defect.effect,),
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


def _first_token_ms(frame: _Frame) -> Estimate:
    """Half of the gateway's time falls before the first token (none or all at the ends); the low end drops an unmeasured wait.

    No end is below the prompt's arithmetic at the GPU's peak.
    """
    first = _fitted_first_token_ms(frame) if frame.factor is None else _first_token_by_steps_ms(frame)
    floor = frame.central.costs.prompt_floor_s * _MS_PER_S
    return replace(first, low=max(first.low, floor))


def _by_steps_ms(load: FleetLoad) -> float:
    return latency.first_token_by_steps_s(load) * _MS_PER_S


def _first_token_by_steps_ms(frame: _Frame) -> Estimate:
    """Bursts delay an engine's first token by up to a factor of its own; the article's wait is one, so it gets its own accuracy."""
    of = _by_steps_ms
    assert frame.factor is not None
    if frame.engine is None:
        return replace(frame, factor=max(frame.factor, latency.FIRST_TOKEN_FACTOR)).estimate(0, of)
    alone = replace(frame, central=frame.engine, others=(), factor=latency.FIRST_TOKEN_FACTOR).estimate(0, of)
    as_fleet = of(frame.central)
    most = as_fleet * (1 + frame.accuracy.ttft_percent / 100)
    return replace(alone, value=as_fleet, low=min(alone.low, as_fleet), high=max(alone.high, most))


def _fitted_first_token_ms(frame: _Frame) -> Estimate:
    first = frame.estimate(
        frame.accuracy.ttft_percent,
        lambda load: latency.first_token_s(load, 0.5) * _MS_PER_S,
        low=(lambda load: latency.first_token_in_engine_s(load) * _MS_PER_S) if frame.reasons else None,
        high=lambda load: latency.first_token_s(load, 1) * _MS_PER_S,
    )
    if frame.engine is None:
        return first
    as_engine = _by_steps_ms(frame.engine)
    if not frame.reasons:
        return replace(first, as_engine=as_engine)
    # Outside the article's own runs bursts delay the first token as on any machine.
    by = latency.FIRST_TOKEN_FACTOR
    return replace(first, as_engine=as_engine, low=min(first.low, as_engine / by), high=max(first.high, as_engine * by))


def _spread_ms(frame: _Frame, percent: float, of: Callable[[FleetLoad, float], float]) -> Estimate:
    """Half of the gateway's time is spread over the tokens (none or all at the ends)."""
    return frame.estimate(
        percent,
        lambda load: of(load, 0.5) * _MS_PER_S,
        low=lambda load: of(load, 0) * _MS_PER_S,
        high=lambda load: of(load, 1) * _MS_PER_S,
    )


def _latency_frames(frame: _Frame, deployment: Deployment) -> tuple[_Frame, _Frame]:
    """Frames for the fitted latencies, and for all other readings besides throughput."""
    if frame.factor is not None:
        return frame, frame
    gateway = deployment.routing == "inference-gateway"
    if gateway or (not frame.reasons and deployment.engine != record_fleet(1).engine):
        where = "behind the gateway" if gateway else "with these options"
        reason = f"latency: none was measured {where}"
        frame = replace(frame, basis="extrapolated", reasons=(*frame.reasons, reason))
    return frame, replace(frame, basis="predicted") if frame.basis == "fitted" else frame
