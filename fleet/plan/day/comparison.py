"""Compare scaling policies for one fleet over a simulated week. Windows are derived from the week before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from statistics import median_high
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from facts.day import SECONDS_PER_DAY, SHAPES, Load, Shape, load_of_day
from facts.releases import Defect
from facts.texts import plural
from facts.workloads import countable_name, named_workload
from fleet.plan.day.fleet import METRIC_LAG_SECONDS, Fleet, Span, serving
from fleet.plan.day.simulate import DayResult, simulate
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.performance import estimate
from fleet.plan.plan import Plan
from fleet.plan.question.goals import (
    COMMITMENTS,
    INTERRUPTIBLE,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
)
from settings.derived.scaling import GROWTH_DURING_LEAD, PolicyWindow, ScalingPolicy, scaling_policy
from settings.sections.monitoring import Objectives
from settings.sections.scaling import Scaling

if TYPE_CHECKING:
    from settings.stack import Settings

MOST_WINDOWS: Final = 4
RARE_GROWTH: Final = 1.74
"""99th percentile of the load's growth factor over 20 minutes. Source: as GROWTH_DURING_LEAD."""
_LARGER_GROWTHS: Final = (2.2, 2.8, 3.5, 5.0)
_SHARES_AT_LEAST: Final = (0.3, 0.45, 0.6, 0.75, 0.9)
"""Assumed, both: the steps in which room is added until the objective holds."""
_BY_LOAD: Final = ("load", "load, more room")
TO_OBJECTIVE: Final = "to the objective"
_OWN: Final = "the stack's"
STOCK_OUT_SECONDS: Final = 7_200
BLIND_SECONDS: Final = 3_600
"""Assumed, both: failures injected from an hour before the peak of the busiest day."""
WAITING_TARGET: Final = 5
"""Source: Google's best practices for inference autoscaling: begin with a queue of 3 to 5."""
MOST_OF_A_STACK: Final = 1_000
"""Source: limit of server.scaling.max and server.replicas."""
_HOURS: Final = 24
_MINUTES: Final = 60
_WEEK: Final = 7
_EVERY_DAY: Final = tuple(range(_WEEK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The fleet to scale."""

    fleet: Fleet
    most: int
    """Most servers: the peak with headroom and spares."""
    fewest: int
    peak_requests_per_s: float
    load_share: float
    interruptible: bool
    at_least: bool
    """Whether amounts are lower bounds because prices are unknown."""
    label: str
    """Confidence in the planner's model for this fleet."""
    objective: float = Objectives().objective
    """Share of requests that must be on time: `monitoring.alerts.objective`."""
    policy: ScalingPolicy | None = None
    """The stack's own policy."""
    bounded_by: str | None = None
    """The stack's setting that limits the number of servers."""
    slow_product: Defect | None = None
    """The release's defect that slows the servers."""
    reservation_first: bool = False
    """Whether nodes come from a reservation of unknown size first. One of known size is the fleet's `reserved_nodes`."""

    @property
    def needed(self) -> int:
        """Servers required for the peak with headroom, without a limit."""
        return ceil(self.peak_requests_per_s / (self.fleet.serving.full_requests_per_s * self.load_share))

    @property
    def is_paid_anyway(self) -> bool:
        """Whether all nodes are billed whether they run or not."""
        return self.fleet.paid_nodes is not None or self.fleet.reserved_nodes >= self.most

    @property
    def is_short(self) -> bool:
        """Whether the peak exceeds all servers at full load."""
        return self.peak_requests_per_s > self.most * self.fleet.serving.full_requests_per_s

    def need(self, requests_per_s: float) -> int:
        """Servers required for that rate with headroom, within the limits."""
        needed = ceil(requests_per_s / (self.fleet.serving.full_requests_per_s * self.load_share))
        return min(self.most, max(self.fewest, needed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One policy and its simulated outcome."""

    name: str
    policy: ScalingPolicy | int
    week: DayResult
    bad_day: DayResult | None = None
    """The busiest day with a stock-out, an hour without metrics and, on interruptible capacity, a lost node."""

    @property
    def usd_per_day(self) -> float | None:
        """Mean daily cost over the week."""
        return None if self.week.usd is None else self.week.usd / self.week.hours * _HOURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All policies under one load shape."""

    shape: Shape
    ways: tuple[Judged, ...]
    mistakes: tuple[Judged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """One shape of load."""

    shape: Shape
    before: Load
    """The week from which policies are derived."""
    week: Load
    busiest: Load
    """The busiest day of `week`, once more."""
    highest: int
    """Second of `week` with the most arrivals."""


def subject_of_plan(plan: Plan) -> Subject:
    """The plan's fleet. The peak is its goal, or full load less headroom for goals in users or dollars."""
    question, money, full = plan.question, plan.money, plan.maximum.requests_per_s.value
    asked = isinstance(question.goal, RequestsPerSecond | TokensPerSecond)
    committed = question.capacity in (*COMMITMENTS, "reservation", "calendar")
    return Subject(
        fleet=Fleet(
            serving=serving(plan.deployment, question.workload, full),
            start_seconds=plan.restart.likely_seconds,
            usd_per_node_hour=money.usd_per_node_hour,
            usd_per_hour_around=money.usd_per_hour
            - sum(item.usd_per_hour or 0.0 for item in money.bill.items if item.id in ("nodes", "reservation")),
            paid_nodes=plan.machines if committed else None,
        ),
        most=plan.machines,
        fewest=2 if question.routing == "inference-gateway" else 1,
        peak_requests_per_s=plan.performance.requests_per_s.value if asked else full * question.load_share,
        load_share=question.load_share,
        interruptible=question.capacity in INTERRUPTIBLE,
        at_least=money.at_least,
        label=plan.label,
        slow_product=plan.deployment.slow_product,
    )


def subject_of_stack(settings: Settings, peak_requests_per_s: float | None = None) -> Subject:
    """A stack's fleet at its largest. The peak is `peak_requests_per_s`, or full load less the default headroom.

    Raises PlanImpossibleError, and LookupError if the model's architecture is unknown.
    """
    from fleet.plan.from_settings import deployment_of, facts_of_stack
    from fleet.plan.planning import plan
    from settings.derived.figures import figures, fleet_shape
    from settings.sections.capacity import Ladder

    policy, bill = scaling_policy(settings), figures(settings).bill
    count = policy.max if policy else max(1, settings.replicas)
    deployment = deployment_of(settings).with_nodes(count)
    one = plan(
        PlanQuestion(
            goal=Users(count=1),
            profile=facts_of_stack(settings),
            machine=settings.machine,
            workload=named_workload(countable_name(settings.serving.workload)),
            capacity=settings.placement.price_key,
            routing=deployment.routing,
            region=settings.region,
            compile_cache=settings.server.compile_cache.enabled,
        )
    )
    offered = OfferedLoad(in_flight=one.in_flight_per_node * count)
    price = bill.nodes.unit_price_usd
    # Servers that share a node pay their share.
    shape, share = fleet_shape(settings), settings.gpus_per_replica / settings.machine.gpus
    committed = shape.committed_nodes
    money = replace(one.money, bill=bill, usd_per_node_hour=price and price * share)
    maximum = estimate(deployment, one.question.workload, offered)
    subject = subject_of_plan(replace(one, deployment=deployment, maximum=maximum, money=money, nodes=count, spares=0))
    return replace(
        subject,
        fleet=replace(
            subject.fleet,
            paid_nodes=None if committed is None else int(committed / share),
            reserved_nodes=int(shape.reserved_nodes / share),
        ),
        peak_requests_per_s=peak_requests_per_s or subject.peak_requests_per_s,
        objective=settings.monitoring.objectives.objective,
        policy=policy,
        bounded_by="server.scaling.max" if policy else "server.replicas",
        reservation_first=isinstance(settings.capacity, Ladder) and settings.capacity.has_unsized_reservation,
    )


def comparisons(subject: Subject) -> tuple[Comparison, ...]:
    """Simulate every load shape. Raises ValueError if there is nothing to scale."""
    if subject.most <= subject.fewest:
        raise ValueError(f"{plural(subject.most, 'server')} at most, nothing to scale; {_more_servers(subject)}")
    traces = {shape: _trace(shape, subject.peak_requests_per_s) for shape in SHAPES}
    by_load = max((scaled_by_load(subject, trace.before) for trace in traces.values()), key=lambda policy: policy.min)
    found = tuple(_comparison(subject, trace, by_load) for trace in traces.values())
    if not _could_save(subject, by_load) or meeting(subject, found) is not None:
        return found
    for policy in _with_more_room(subject, by_load):
        more = tuple(
            replace(one, ways=(*one.ways, _judge(subject, traces[one.shape], TO_OBJECTIVE, policy))) for one in found
        )
        if meeting(subject, more) is not None:
            return more
    return found


def meeting(subject: Subject, compared: Sequence[Comparison]) -> ScalingPolicy | None:
    """The load-driven policy without windows that meets the objective under every shape of load, the one with least room first."""
    for index, way in enumerate(compared[0].ways):
        policy = way.policy
        if way.name not in (*_BY_LOAD, TO_OBJECTIVE) or not isinstance(policy, ScalingPolicy):
            continue
        if all(one.ways[index].week.slo_attainment >= subject.objective for one in compared):
            return policy
    return None


def keeps_own(subject: Subject, compared: Sequence[Comparison]) -> bool:
    """Whether the stack's own policy meets the objective under every shape, too, in no more node-hours than what would be recommended."""
    policy = meeting(subject, compared)
    own = [way.week for one in compared for way in one.ways if way.name == _OWN]
    found = [way.week for one in compared for way in one.ways if way.policy == policy and way.name != _OWN]
    return (
        bool(own and found)
        and all(week.slo_attainment >= subject.objective for week in own)
        and sum(week.node_hours for week in own) <= sum(week.node_hours for week in found)
    )


def _could_save(subject: Subject, by_load: ScalingPolicy) -> bool:
    """Whether scaling by load can cost less than the static fleet, and hold its peak."""
    return not subject.is_paid_anyway and not subject.is_short and by_load.min < by_load.max


def _with_more_room(subject: Subject, by_load: ScalingPolicy) -> Iterator[ScalingPolicy]:
    """Load-driven policies for ever larger growth during a start, then with ever more servers at least."""
    rare = subject.fleet.serving.target(RARE_GROWTH)
    for growth in _LARGER_GROWTHS:
        yield replace(by_load, target_in_flight=subject.fleet.serving.target(growth))
    for share in _SHARES_AT_LEAST:
        least = ceil(share * subject.most)
        if by_load.min < least < subject.most:
            yield replace(by_load, target_in_flight=rare, min=least, fallback_replicas=least)


def _more_servers(subject: Subject) -> str:
    if subject.bounded_by is None:
        return "pass a higher peak"
    most = max(subject.fewest + 1, subject.needed)
    if most > MOST_OF_A_STACK:
        return f"the peak needs {most:,} servers, above the limit of {MOST_OF_A_STACK:,} per stack"
    if subject.bounded_by == "server.scaling.max":
        return f"write server.scaling.max: {most}"
    return f"write server.scaling: {{mode: load, min: {subject.fewest}, max: {most}}} in place of server.replicas"


def recommended(subject: Subject, compared: Sequence[Comparison]) -> Scaling | None:
    """`server.scaling` of the load-driven policy that meets the objective, without windows: those depend on the user's traffic.

    None if none meets it, it saves nothing, the stack's own does as well for no more, the fleet is too small for the peak, or the
    section is invalid.
    """
    policy = meeting(subject, compared)
    if policy is None or not _could_save(subject, policy) or keeps_own(subject, compared):
        return None
    try:
        return Scaling.model_validate(
            {
                "mode": "load",
                "min": policy.min,
                "max": policy.max,
                "targetInFlight": policy.target_in_flight,
                "leadMinutes": ceil(policy.lead_seconds / _MINUTES),
            }
        )
    except ValidationError:
        return None


def _trace(shape: Shape, peak_requests_per_s: float) -> _Trace:
    week = load_of_day(shape, peak_requests_per_s)
    highest = week.requests_per_s.index(max(week.requests_per_s)) * week.step_seconds
    return _Trace(
        shape=shape,
        before=load_of_day(shape, peak_requests_per_s, first_day=0),
        week=week,
        busiest=load_of_day(shape, peak_requests_per_s, first_day=_WEEK + highest // SECONDS_PER_DAY, days=1),
        highest=highest,
    )


def _comparison(subject: Subject, trace: _Trace, by_load: ScalingPolicy) -> Comparison:
    ways = tuple(_judge(subject, trace, name, policy) for name, policy in _ways(subject, trace.before, by_load))
    blind = replace(subject.fleet, blind=(Span(begin=trace.highest, end=trace.highest + BLIND_SECONDS),))
    waiting = replace(by_load, target_in_flight=WAITING_TARGET)
    to_zero = replace(by_load, min=0)
    mistakes = (
        Judged(name="waiting", policy=waiting, week=simulate(waiting, trace.week, subject.fleet, signal="waiting")),
        Judged(name="to-zero", policy=to_zero, week=simulate(to_zero, trace.week, blind, nulls_are_zero=True)),
    )
    return Comparison(shape=trace.shape, ways=ways, mistakes=mistakes)


def _judge(subject: Subject, trace: _Trace, name: str, policy: ScalingPolicy | int) -> Judged:
    """The policy's week, and its busiest day with failures."""
    begin = max(0, trace.highest % SECONDS_PER_DAY - 3600)
    bad = replace(
        subject.fleet,
        stock_outs=(Span(begin=begin, end=begin + STOCK_OUT_SECONDS),),
        blind=(Span(begin=begin, end=begin + BLIND_SECONDS),),
        losses=(begin,) if subject.interruptible else (),
    )
    return Judged(
        name=name,
        policy=policy,
        week=simulate(policy, trace.week, subject.fleet),
        bad_day=simulate(policy, trace.busiest, bad),
    )


def _ways(subject: Subject, before: Load, by_load: ScalingPolicy) -> Iterator[tuple[str, ScalingPolicy | int]]:
    yield "static", subject.most
    least, windows = proposed_windows(before, subject.need, max)
    yield "schedule", replace(by_load, mode="schedule", target_in_flight=None, min=least, windows=windows)
    yield "load", by_load
    yield "load, more room", replace(by_load, target_in_flight=subject.fleet.serving.target(RARE_GROWTH))
    yield "both", replace(by_load, windows=proposed_windows(before, subject.need, median_high)[1])
    if subject.policy is not None:
        yield _OWN, subject.policy


def scaled_by_load(subject: Subject, before: Load) -> ScalingPolicy:
    """The load policy: its target leaves room for growth during a start, its minimum covers the quietest hour."""
    lead = int(subject.fleet.start_seconds + METRIC_LAG_SECONDS)
    least = subject.need(min(before.requests_per_s))
    return ScalingPolicy(
        mode="load",
        mechanism="keda",
        min=least,
        max=subject.most,
        target_in_flight=subject.fleet.serving.target(GROWTH_DURING_LEAD),
        lead_seconds=lead,
        windows=(),
        timezone="UTC",
        down_window_seconds=2 * lead,
        fallback_replicas=least,
    )


def proposed_windows(
    before: Load, need: Callable[[float], int], of_days: Callable[[list[int]], int]
) -> tuple[int, tuple[PolicyWindow, ...]]:
    """The minimum of any hour, and daily windows above it; the trace has no weekdays.

    Merges adjacent hours at the lowest cost in node-hours until at most MOST_WINDOWS remain.
    """
    hour = 3600 // before.step_seconds
    rates = before.requests_per_s
    needs = [
        of_days([need(max(rates[at : at + hour])) for at in range(first * hour, len(rates), _HOURS * hour)])
        for first in range(_HOURS)
    ]
    spans = [(at, at + 1, count) for at, count in enumerate(needs)]
    while len(spans) > 1:
        costs = [
            max(left[2], right[2]) * (right[1] - left[0]) - sum((e - b) * n for b, e, n in (left, right))
            for left, right in pairwise(spans)
        ]
        cheapest = costs.index(min(costs))
        above = sum(count > min(needs) for _, _, count in spans)
        if costs[cheapest] > 0 and above <= MOST_WINDOWS:
            break
        left, right = spans[cheapest], spans[cheapest + 1]
        spans[cheapest : cheapest + 2] = [(left[0], right[1], max(left[2], right[2]))]
    least = min(count for _, _, count in spans)
    return least, tuple(
        PolicyWindow(days=_EVERY_DAY, start_minute=begin * _MINUTES, end_minute=end * _MINUTES, replicas=count)
        for begin, end, count in spans
        if count > least
    )
