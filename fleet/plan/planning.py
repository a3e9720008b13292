"""Turn a question into a plan. Nodes: nodes_for.py, batch.py, within_budget.py. Infrastructure: documented limits. Caveats: remarks.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from facts import figures
from facts.machines import DEFAULT_MACHINE
from facts.routers import CPU_STEPS, MOST_REPLICAS
from facts.sizing import Sizing, size
from facts.texts import plural
from facts.time_to_serve import Start, TimeToServe, time_to_serve
from facts.workloads import Workload
from fleet.plan.batch import batch_nodes, batch_run
from fleet.plan.economics import SpotLoss, spares_for
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.fleet_rate import OverloadedError, most_in_flight_per_node
from fleet.plan.model.gpu_memory import DoesNotFitError, budget
from fleet.plan.model.performance import ContextTooShortError, Performance, check_context, estimate
from fleet.plan.model.roofline import known, planned
from fleet.plan.model.step_time import step_costs
from fleet.plan.money import bill_of, money
from fleet.plan.nodes_for import Goal, ImpossibleGoalError, nodes_for, users_in_flight
from fleet.plan.plan import BatchRun, FullLoadLimit, Plan, Verdict
from fleet.plan.question.goals import (
    INTERRUPTIBLE,
    MOST_MACHINES,
    Batch,
    Budget,
    PlanImpossibleError,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
    reading_seconds,
)
from fleet.plan.question.profiles import profiles_for
from fleet.plan.remarks import remarks
from fleet.plan.routers import size_routers
from fleet.plan.within_budget import machines_within, size_of_machines

# Lowest share of full load tried on a budget's nodes before the latency limits count as unreachable.
_LEAST_SHARE = 0.01
_HALVINGS = 10
_ALL_OF = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    """Nodes, their load, and spares."""

    deployment: Deployment
    offered: OfferedLoad
    in_flight_per_node: float
    spares: int
    spares_why: str

    @property
    def machines(self) -> int:
        return self.deployment.nodes + self.spares


def plan(question: PlanQuestion) -> Plan:
    """Plan a fleet, with remarks. Raises PlanImpossibleError with the reason and the nearest possible goal."""
    answer = plan_offer(question)
    with _explained(question):
        answer = replace(answer, nodes_with_readers=_nodes_with_readers(question))
        return replace(answer, remarks=tuple(remarks(answer)))


def plan_offer(question: PlanQuestion) -> Plan:
    """The plan without remarks, for one of many that are compared. Raises as `plan`."""
    with _explained(question):
        _check(question)
        answer = _plan(question, _fleet(question))
        return replace(answer, nodes_as_engine=_nodes_as_engine(question))


def plan_batch_on(question: PlanQuestion, machines: int) -> Plan:
    """The plan of a batch on that many machines, whatever its deadline. Raises as `plan`."""
    with _explained(question):
        _check(question)
        assert isinstance(question.goal, Batch)
        one = _one(question)
        nodes = max(one.nodes, machines)
        fleet = _batch_fleet(question, question.goal, one.with_nodes(nodes), _in_flight_per_node(question, one))
        return _plan(question, replace(fleet, spares=0, spares_why=""))


def batch_with(answer: Plan, workload: Workload) -> BatchRun:
    """The batch of a plan on the same nodes, for requests of other lengths."""
    question = replace(answer.question, workload=workload)
    batch = question.goal
    assert isinstance(batch, Batch)
    offered = OfferedLoad(in_flight=min(answer.in_flight_per_node * answer.nodes, float(batch.documents)))
    performance = estimate(answer.deployment, workload, offered)
    restart = _restart(question, answer.machines)
    return batch_run(question, batch, performance, answer.money.bill, answer.time_to_serve, restart)


@contextmanager
def _explained(question: PlanQuestion) -> Iterator[None]:
    try:
        yield
    except ContextTooShortError as error:
        raise PlanImpossibleError(str(error), _longer_context(question)) from None
    except (DoesNotFitError, OverloadedError) as error:
        raise PlanImpossibleError(
            str(error), "a larger machine (--machine any), another profile, or shorter requests"
        ) from None


def _nodes_with_readers(question: PlanQuestion) -> int | None:
    """Nodes for users who read each response before the next request."""
    goal = question.goal
    if not isinstance(goal, Users) or goal.think_seconds:
        return None
    reading = replace(goal, think_seconds=reading_seconds(question.workload))
    return _fleet(replace(question, goal=reading)).deployment.nodes


def _nodes_as_engine(question: PlanQuestion) -> int | None:
    """Nodes that would do as one engine. None where the question asks that already, or nothing was measured."""
    one = _one(question)
    if question.reading == "engine" or known(one).bound is not None or one.slow_product is not None:
        return None
    try:
        return _fleet(replace(question, reading="engine")).deployment.nodes
    except PlanImpossibleError:
        return None


def _check(question: PlanQuestion) -> None:
    profile = question.profile
    if profile.weights_gb is None:
        raise PlanImpossibleError(
            f"profile {profile.name}: no published revision of {profile.model}, so its volume size is unknown",
            "another profile",
        )
    check_context(_one(question), question.workload)


def _one(question: PlanQuestion) -> Deployment:
    """The smallest fleet: one node, or two behind an endpoint picker."""
    profile = question.profile
    fewest = 2 if question.routing == "inference-gateway" else 1
    return Deployment(
        nodes=fewest,
        engine=profile.shape,
        model=profile.model_shape,
        gpu=question.machine.gpu,
        gpus_per_node=question.machine.gpus,
        routing=question.routing,
        reading=question.reading,
        slow_product=profile.slow_product,
    )


def _longer_context(question: PlanQuestion) -> str:
    longest = question.workload.longest_request_tokens
    fitting = profiles_for(longest)
    split = "smaller documents" if isinstance(question.goal, Batch) else "shorter requests"
    own, context = question.profile.model, question.profile.model_shape.context_tokens
    if context < longest:
        return f"{split}, or another model: the config of {own} ends at {context:,} tokens"
    if not fitting:
        return f"{split} (no profile has a context of {longest:,} tokens)"
    best = fitting[0]
    return f"--profile {best.name} ({best.shape.max_model_len_tokens:,} tokens of context), or {split}"


def _goal(question: PlanQuestion, **amount: float) -> Goal:
    limits = question.limits
    return Goal(ttft_p99_ms=limits.ttft_p99_ms, tpot_ms=limits.tpot_ms, load_share=question.load_share, **amount)


def _fleet(question: PlanQuestion) -> _Fleet:
    match question.goal:
        case TokensPerSecond(total_tokens_per_s=amount):
            goal = _goal(question, total_tokens_per_s=amount)
        case Users(count=amount, think_seconds=seconds):
            goal = _goal(question, in_flight=amount, think_seconds=seconds)
        case RequestsPerSecond(requests_per_s=amount):
            goal = _goal(question, requests_per_s=amount)
        case Budget():
            return _within_budget(question, question.goal)
        case Batch():
            return _for_batch(question, question.goal)
    one = _one(question)
    try:
        sizing = nodes_for(one, question.workload, goal)
    except ImpossibleGoalError as error:
        raise PlanImpossibleError(str(error), _nearest(question, one)) from None
    deployment = _within_limits(question, sizing.deployment, goal)
    spares, why = _spares(question, deployment.nodes)
    return _Fleet(
        deployment=deployment,
        offered=_offered(question, deployment, goal),
        in_flight_per_node=sizing.in_flight_per_node,
        spares=spares,
        spares_why=why,
    )


def _offered(question: PlanQuestion, deployment: Deployment, goal: Goal) -> OfferedLoad:
    """The goal's load on that fleet: the slower it is, the fewer of its users think."""
    if goal.in_flight is None:
        return OfferedLoad(requests_per_s=goal.rate(question.workload))
    return OfferedLoad(in_flight=users_in_flight(deployment, question.workload, goal.in_flight, goal.think_seconds))


def _within_limits(question: PlanQuestion, deployment: Deployment, goal: Goal) -> Deployment:
    """Add nodes until the interval's high end is within the limits: loads below the measured one widen it."""
    if question.limits.ttft_p99_ms is None and question.limits.tpot_ms is None:
        return deployment

    def missed(nodes: int) -> list[Verdict]:
        fleet = deployment.with_nodes(nodes)
        performance = estimate(fleet, question.workload, _offered(question, fleet, goal))
        return _missed(question, performance)

    low = high = deployment.nodes
    while misses := missed(high):
        if high >= MOST_MACHINES:
            raise _misses(question, misses[0], high)
        low, high = high + 1, min(MOST_MACHINES, 2 * high)
    while low < high:
        middle = (low + high) // 2
        if missed(middle):
            low = middle + 1
        else:
            high = middle
    return deployment.with_nodes(high)


def _within_budget(question: PlanQuestion, budget: Budget) -> _Fleet:
    one = _one(question)
    per_node = _in_flight_per_node(question, one)

    def machines_for(nodes: int) -> int:
        return nodes + _spares(question, nodes)[0]

    nodes = machines_within(question, budget.usd_per_hour, fewest=one.nodes, machines_for=machines_for)
    deployment = one.with_nodes(nodes)
    spares, why = _spares(question, nodes)
    return _Fleet(
        deployment=deployment,
        offered=_most_within_limits(question, deployment, per_node),
        in_flight_per_node=per_node,
        spares=spares,
        spares_why=why,
    )


def _most_within_limits(question: PlanQuestion, deployment: Deployment, per_node: float) -> OfferedLoad:
    """The planned share of full load, or the most within the latency limits on that many nodes."""
    full = OfferedLoad(in_flight=per_node * deployment.nodes)
    most = estimate(deployment, question.workload, full).requests_per_s.value * question.load_share

    def missed(share: float) -> list[Verdict]:
        performance = estimate(deployment, question.workload, OfferedLoad(requests_per_s=share * most))
        return _missed(question, performance)

    if not missed(1.0):
        return OfferedLoad(requests_per_s=most)
    if misses := missed(_LEAST_SHARE):
        raise _misses(question, misses[0], deployment.nodes)
    low, high = _LEAST_SHARE, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if missed(middle) else (middle, high)
    return OfferedLoad(requests_per_s=low * most)


def _misses(question: PlanQuestion, miss: Verdict, nodes: int) -> PlanImpossibleError:
    return PlanImpossibleError(
        f"{miss.name} of {miss.limit_ms:,.0f} ms: {nodes:,} nodes may still take {miss.high_ms:,.0f} ms",
        _nearest(question, _one(question)),
    )


def _for_batch(question: PlanQuestion, batch: Batch) -> _Fleet:
    one = _one(question)
    per_node = _in_flight_per_node(question, one)
    nodes = batch_nodes(
        question,
        batch,
        one,
        per_node,
        lambda nodes: time_to_serve(_way_from(question, nodes + _spares(question, nodes)[0])).likely_seconds,
    )
    return _batch_fleet(question, batch, one.with_nodes(nodes), per_node)


def _batch_fleet(question: PlanQuestion, batch: Batch, deployment: Deployment, per_node: float) -> _Fleet:
    spares, why = _spares(question, deployment.nodes)
    return _Fleet(
        deployment=deployment,
        offered=OfferedLoad(in_flight=min(per_node * deployment.nodes, float(batch.documents))),
        in_flight_per_node=per_node,
        spares=spares,
        spares_why=why,
    )


def _in_flight_per_node(question: PlanQuestion, one: Deployment) -> float:
    try:
        return nodes_for(one, question.workload, _goal(question, in_flight=1.0)).in_flight_per_node
    except ImpossibleGoalError as error:
        raise PlanImpossibleError(str(error), _nearest(question, one)) from None


def _nearest(question: PlanQuestion, one: Deployment) -> str:
    """The nearest possible goal: lowest latency, or most load on the largest stack."""
    # On the most nodes: the interval is wider outside the measured range.
    engines = MOST_MACHINES * one.engine.data_parallel
    least = estimate(one.with_nodes(MOST_MACHINES), question.workload, OfferedLoad(in_flight=float(engines)))
    missed = _missed(question, least)
    if missed:
        limits = " and ".join(f"{verdict.name} of {ceil(verdict.high_ms):,} ms" for verdict in missed)
        return f"{limits}, with one request per engine; more nodes do not reduce it"
    sizing = nodes_for(one, question.workload, _goal(question, in_flight=1.0))
    most = OfferedLoad(in_flight=sizing.in_flight_per_node * MOST_MACHINES)
    able = estimate(one.with_nodes(MOST_MACHINES), question.workload, most)
    share = question.load_share
    match question.goal:
        case Users(think_seconds=seconds):
            users = sizing.most_in_flight_per_node * MOST_MACHINES + seconds * able.requests_per_s.value
            amount = f"{share * users:,.0f} users"
        case RequestsPerSecond():
            amount = f"{share * able.requests_per_s.value:,.0f} requests/s"
        case _:
            amount = f"{share * able.total_tokens_per_s.value:,.0f} total tok/s"
    return f"{amount} on {MOST_MACHINES:,} nodes, the limit of one stack"


def _spares(question: PlanQuestion, nodes: int) -> tuple[int, str]:
    if question.spares is not None:
        return question.spares, "as requested"
    if question.capacity not in INTERRUPTIBLE:
        return 0, f"none: {question.capacity} nodes are not reclaimed"
    loss = _loss(question)
    if loss is None:
        family = question.machine.family.upper()
        return 0, f"none: no loss rate of {family} Spot nodes is published; pass yours with --loss-per-node-day"
    try:
        spares = spares_for(nodes, loss, question.confidence)
    except ValueError as error:
        raise PlanImpossibleError(
            str(error), "capacity that is not reclaimed: a reservation, or flex-start for up to seven days"
        ) from None
    rate = f"{loss.notices_per_node_day:g} {'loss' if loss.notices_per_node_day == 1 else 'losses'}"
    return spares, (
        f"{rate} per node and day, {loss.restore_seconds / 60:.0f} min each: all {nodes} required nodes are up "
        f"{100 * question.confidence:g} % of the time"
    )


def _loss(question: PlanQuestion) -> SpotLoss | None:
    if question.notices_per_node_day is None:
        return None
    return SpotLoss(
        notices_per_node_day=question.notices_per_node_day, restore_seconds=_restart(question, 1).likely_seconds
    )


def _way_from(question: PlanQuestion, machines: int) -> Start:
    """Start-up of that many machines from the question's starting point."""
    return _start(
        question, machines, cluster=question.starts_from != "nothing", weights=question.starts_from == "weights"
    )


def _restart(question: PlanQuestion, machines: int) -> TimeToServe:
    """Restart of machines: cluster and weights in place, caches warm if the plan keeps them."""
    start = _start(question, machines, cluster=True, weights=True)
    return time_to_serve(replace(start, warm_caches=question.compile_cache))


def _start(question: PlanQuestion, machines: int, *, cluster: bool, weights: bool) -> Start:
    assert question.profile.weights_gb is not None
    sizing = size_of_machines(question, machines)
    return Start(
        weights_gb=question.profile.weights_gb,
        volume_gib=sizing.volume_gib,
        volume_mibps=sizing.volume_mibps,
        readers=ceil(machines / sizing.volume_copies),
        platform_exists=cluster,
        weights_exist=weights,
        flex_start=_has_flex_start(question),
        gpus=question.machine.gpus,
        articles_machine=question.machine == DEFAULT_MACHINE,
    )


def _has_flex_start(question: PlanQuestion) -> bool:
    """Whether a machine may be waited for at flex-start. A stack's own ladder may be without it."""
    if question.capacity == "ladder" and question.billed is not None and question.billed.capacity == "ladder":
        return "flex-start" in question.billed.ladder
    return question.capacity in ("flex-start", "ladder")


def _plan(question: PlanQuestion, fleet: _Fleet) -> Plan:
    deployment, workload = fleet.deployment, question.workload
    performance = estimate(deployment, workload, fleet.offered)
    maximum = estimate(deployment, workload, OfferedLoad(in_flight=fleet.in_flight_per_node * deployment.nodes))
    if isinstance(question.goal, Budget):
        performance = _as_share_of(maximum, performance)
    sizing = _sizing(question, fleet, maximum)
    bill = bill_of(question, sizing, fleet.machines, _router_vcpus(question, fleet, maximum))
    way, restart = time_to_serve(_way_from(question, fleet.machines)), _restart(question, 1)
    batch = None
    if isinstance(question.goal, Batch):
        batch = batch_run(question, question.goal, performance, bill, way, _restart(question, fleet.machines))
    return Plan(
        question=question,
        nodes=deployment.nodes,
        spares=fleet.spares,
        spares_why=fleet.spares_why,
        deployment=deployment,
        in_flight_per_node=fleet.in_flight_per_node,
        full_load_limit=_full_load_limit(question, deployment, fleet.in_flight_per_node),
        performance=performance,
        maximum=maximum,
        money=money(question, bill, performance, _full_load(fleet, workload, maximum)),
        sizing=sizing,
        time_to_serve=way,
        restart=restart,
        published=_published(question, fleet.machines),
        verdicts=tuple(_verdicts(question, performance)),
        batch=batch,
        nodes_as_engine=None,
        nodes_with_readers=None,
        remarks=(),
    )


def _router_vcpus(question: PlanQuestion, fleet: _Fleet, full: Performance) -> int:
    """Of the routers that the plan has."""
    if not question.routers:
        return 0
    found = size_routers(question, fleet.machines, fleet.deployment.nodes, full)
    if found is None:
        raise PlanImpossibleError(
            f"{plural(fleet.deployment.nodes, 'node')} at full load would take more than {MOST_REPLICAS} routers of {CPU_STEPS[-1]} vCPU",
            "several stacks, each with a share of the load, or no --routers",
        )
    return found.replicas * found.cpu


def _full_load_limit(question: PlanQuestion, deployment: Deployment, per_node: float) -> FullLoadLimit:
    costs = step_costs(deployment, question.workload, planned(deployment), budget(deployment, question.workload))
    most = most_in_flight_per_node(deployment, costs)
    if per_node < _ALL_OF * most:
        limited = question.limits.ttft_p99_ms is not None or question.limits.tpot_ms is not None
        return "the latency limits" if limited else "throughput"
    if most < costs.running_limit * deployment.engine.data_parallel:
        return "the article's load"
    return costs.limited_by  # type: ignore[return-value]  # a key of the limits in step_time.py


def _as_share_of(maximum: Performance, performance: Performance) -> Performance:
    """The planned load of a budget, which is a share of a full load that is itself uncertain."""
    share = performance.requests_per_s.value / maximum.requests_per_s.value
    rates = ("requests_per_s", "total_tokens_per_s", "output_tokens_per_s")
    return replace(performance, **{name: getattr(maximum, name).map(lambda rate: rate * share) for name in rates})


def _full_load(fleet: _Fleet, workload: Workload, maximum: Performance) -> Performance:
    """All machines at full load, spares included."""
    if not fleet.spares:
        return maximum
    most = OfferedLoad(in_flight=fleet.in_flight_per_node * fleet.machines)
    return estimate(fleet.deployment.with_nodes(fleet.machines), workload, most)


def _sizing(question: PlanQuestion, fleet: _Fleet, maximum: Performance) -> Sizing:
    assert question.profile.weights_gb is not None
    gateway = question.routing == "inference-gateway"
    loss = None
    if gateway:
        plain = estimate(
            replace(fleet.deployment, routing="cluster-ip"),
            question.workload,
            OfferedLoad(in_flight=maximum.in_flight.value),
        )
        loss = max(0.0, 1 - maximum.requests_per_s.value / plain.requests_per_s.value)
    return size(
        nodes=fleet.machines,
        machine=question.machine,
        weights_gb=question.profile.weights_gb,
        requests_per_s=maximum.requests_per_s.value,
        output_tokens_per_s=maximum.output_tokens_per_s.value,
        tokens_per_chunk=maximum.tokens_per_chunk,
        in_flight=max(maximum.in_flight.value, fleet.offered.in_flight or 0.0),
        gateway=gateway,
        loss_per_token_with_gateway=loss,
    )


def _verdicts(question: PlanQuestion, performance: Performance) -> Iterator[Verdict]:
    limits = question.limits
    if limits.ttft_p99_ms is not None:
        yield _verdict("TTFT p99", limits.ttft_p99_ms, performance.ttft_p99_ms)
    if limits.tpot_ms is not None:
        yield _verdict("TPOT", limits.tpot_ms, performance.tpot_ms)


def _missed(question: PlanQuestion, performance: Performance) -> list[Verdict]:
    """Limits that the plan does not keep; of an upper bound, those that not even the bound keeps."""
    bound = performance.tpot_ms.basis == "upper bound"
    return [
        verdict
        for verdict in _verdicts(question, performance)
        if (verdict.expected_ms > verdict.limit_ms if bound else not verdict.holds)
    ]


def _verdict(name: Literal["TTFT p99", "TPOT"], limit_ms: float, estimated: Estimate) -> Verdict:
    return Verdict(name=name, limit_ms=limit_ms, expected_ms=estimated.value, high_ms=estimated.high)


def _published(question: PlanQuestion, machines: int) -> figures.Match:
    profile, workload = question.profile, question.workload
    shape = figures.ServingShape(
        model=profile.model,
        engine_version=profile.engine_version,
        machine_type=question.machine.type,
        replicas=machines,
        gpus_per_replica=question.machine.gpus,
        flags=profile.flags,
        env=profile.env,
        routing=question.routing,
        workload=workload.title,
    )
    return figures.match(shape)
