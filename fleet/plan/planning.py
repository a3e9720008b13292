"""Turn a question into a plan: one search for the fewest nodes. Infrastructure: documented limits. Caveats: remarks.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil, inf
from typing import Literal

from facts import figures
from facts.capacity import FLEX_START_MAX_SECONDS
from facts.cost import SECONDS_PER_HOUR
from facts.machines import DEFAULT_MACHINE
from facts.sizing import Sizing, size
from facts.texts import plural
from facts.time_to_serve import Start, TimeToServe, time_to_serve
from facts.workloads import Workload
from fleet.plan.batch import batch_run
from fleet.plan.model.calibration import Parameters
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.fleet_rate import OverloadedError, best_in_flight, fleet_load, most_in_flight_per_node
from fleet.plan.model.gpu_memory import DoesNotFitError, MemoryBudget, budget
from fleet.plan.model.performance import ContextTooShortError, Performance, check_context, estimate
from fleet.plan.model.roofline import planned
from fleet.plan.model.step_time import step_costs
from fleet.plan.money import bill_of, money, node_hour_usd
from fleet.plan.plan import BatchRun, FullLoadLimit, Plan, Verdict
from fleet.plan.question.goals import (
    MOST_MACHINES,
    Batch,
    Budget,
    PlanImpossibleError,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
)
from fleet.plan.question.profiles import profiles_for
from fleet.plan.remarks import remarks
from fleet.plan.search import lowest
from fleet.report.words import format_duration, format_usd

_ALL_OF = 0.999
_FLEX_START_HOURS = FLEX_START_MAX_SECONDS / SECONDS_PER_HOUR
# For a missed deadline, suggest the fewest nodes within this factor of the shortest time.
_WORTH_A_NODE = 1.1


def plan(question: PlanQuestion) -> Plan:
    """Plan a fleet, with remarks. Raises PlanImpossibleError with the reason and the nearest possible goal."""
    answer = plan_offer(question)
    return replace(answer, remarks=tuple(remarks(answer)))


def plan_offer(question: PlanQuestion) -> Plan:
    """The plan without remarks, for one of many that are compared. Raises as `plan`."""
    with _explained(question):
        return _Planner(question).plan()


def plan_batch_on(question: PlanQuestion, nodes: int) -> Plan:
    """The plan of a batch on that many nodes, whatever its deadline. Raises as `plan`."""
    with _explained(question):
        planner = _Planner(question)
        return planner.on(max(planner.one.nodes, nodes))


def batch_with(answer: Plan, workload: Workload) -> BatchRun:
    """The batch of a plan on the same nodes, for requests of other lengths."""
    question = replace(answer.question, workload=workload)
    batch = question.goal
    assert isinstance(batch, Batch)
    offered = OfferedLoad(in_flight=min(answer.in_flight_per_node * answer.nodes, float(batch.documents)))
    performance = estimate(answer.deployment, workload, offered)
    restart = _restart(question, answer.nodes)
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


class _Planner:
    """One question, the smallest fleet for it, and a node's full load. Raises what `estimate` raises, and PlanImpossibleError."""

    def __init__(self, question: PlanQuestion) -> None:
        profile = question.profile
        if profile.weights_gb is None:
            raise PlanImpossibleError(
                f"profile {profile.name}: no published revision of {profile.model}, so its volume size is unknown",
                "another profile",
            )
        self.question, self.workload = question, question.workload
        self.one = Deployment(
            nodes=2 if question.routing == "inference-gateway" else 1,
            engine=profile.shape,
            model=profile.model_shape,
            gpu=question.machine.gpu,
            gpus_per_node=question.machine.gpus,
            routing=question.routing,
            slow_product=profile.slow_product,
        )
        check_context(self.one, self.workload)
        self.room: MemoryBudget = budget(self.one, self.workload)
        self.parameters: Parameters = planned(self.one)
        costs = step_costs(self.one, self.workload, self.parameters, self.room)
        held = most_in_flight_per_node(self.one, costs)
        self.most = self._most_within_limits(held)
        """Most requests in flight per node within memory and limits. Above full load where throughput peaks earlier: steps exceed captured
        CUDA graphs, or API servers saturate."""
        self.full = best_in_flight(self.one, self.workload, self.parameters, self.room, self.most)
        """Requests in flight per node at full load, the highest throughput."""
        self.full_load_limit: FullLoadLimit = costs.limited_by  # type: ignore[assignment]  # a key of the limits in step_time.py
        if self.full < _ALL_OF * held:
            self.full_load_limit = "the latency limits" if question.limits.given else "throughput"
        elif held < costs.running_limit * self.one.engine.data_parallel:
            self.full_load_limit = "the article's load"

    def plan(self) -> Plan:
        """The plan on the fewest nodes; of a budget, on the most."""
        return self.on(self._affordable() if isinstance(self.question.goal, Budget) else self._fewest())

    # Nodes ------------------------------------------------------------------------------------------------------------

    def _fewest(self) -> int:
        """The fewest nodes that reach the goal within the limits."""
        most = MOST_MACHINES
        if isinstance(self.question.goal, Batch):
            # Engines without a document would idle.
            documents = self.question.goal.documents
            most = min(most, max(self.one.nodes, ceil(documents / self.one.engine.data_parallel)))
        found = lowest(lambda nodes: self._reaches(nodes) and not self._missed_on(nodes), self.one.nodes, most)
        if found is not None:
            return found
        raise self._impossible(most)

    def _reaches(self, nodes: int) -> bool:
        """Whether that many nodes have the goal's capacity, headroom included."""
        share = self.question.load_share
        match self.question.goal:
            case Users(users=users):
                return nodes * self.most >= users / share
            case RequestsPerSecond(requests_per_s=rate):
                return self._rate(nodes) >= rate / share
            case TokensPerSecond(total_tokens_per_s=tokens):
                return self._rate(nodes) >= tokens / self.workload.tokens_per_request / share
            case Batch():
                return self._hours(nodes) <= self._most_hours
            case Budget():
                raise AssertionError("a budget has no capacity to reach")

    def _rate(self, nodes: int, in_flight: float | None = None) -> float:
        """Requests/s, at full load unless other requests in flight are given."""
        offered = OfferedLoad(in_flight=in_flight or self.full * nodes)
        fleet = self.one.with_nodes(nodes)
        return fleet_load(fleet, self.workload, offered, self.parameters, self.room).requests_per_s

    def _hours(self, nodes: int) -> float:
        """From the first command to the batch's last response."""
        batch = self.question.goal
        assert isinstance(batch, Batch)
        rate = self._rate(nodes, min(self.full * nodes, float(batch.documents)))
        work = batch.documents / (rate * self.question.load_share)
        return (time_to_serve(_first_start(self.question, nodes)).likely_seconds + work) / SECONDS_PER_HOUR

    @property
    def _most_hours(self) -> float:
        """Hours that a batch may take: to its deadline, or until flex-start ends its nodes."""
        batch = self.question.goal
        assert isinstance(batch, Batch)
        deadline = inf if batch.deadline_hours is None else batch.deadline_hours
        return min(deadline, _FLEX_START_HOURS) if self.question.capacity == "flex-start" else deadline

    def _affordable(self) -> int:
        """The most nodes within the budget, infrastructure included."""
        question, fewest = self.question, self.one.nodes
        assert isinstance(question.goal, Budget)
        usd = question.goal.usd_per_hour
        if node_hour_usd(question) is None:
            raise PlanImpossibleError(
                f"no dated price of a node-hour is known for {question.machine.type} as {question.capacity} in {question.region}, so "
                "a budget cannot be turned into nodes",
                "pass your price with --usd-per-node-hour, or choose one that `fleet prices` shows",
            )

        def cost(nodes: int) -> float:
            # Rounded to cents as in reports, so that the amount a plan shows buys that plan.
            return round(bill_of(question, _size_of(question, nodes), nodes).usd_per_hour_known, 2)

        beyond = lowest(lambda nodes: cost(nodes) > usd, fewest, MOST_MACHINES)
        if beyond == fewest:
            raise PlanImpossibleError(
                f"{format_usd(usd)} an hour is less than the smallest fleet costs ({plural(fewest, 'node')} and infrastructure)",
                f"{format_usd(cost(fewest))} an hour",
                cost(fewest) / usd,
            )
        return MOST_MACHINES if beyond is None else beyond - 1

    # Load and limits --------------------------------------------------------------------------------------------------

    def _offered(self, fleet: Deployment) -> OfferedLoad:
        """The goal's load on that fleet."""
        match self.question.goal:
            case Users(users=users):
                return OfferedLoad(in_flight=users)
            case RequestsPerSecond(requests_per_s=rate):
                return OfferedLoad(requests_per_s=rate)
            case TokensPerSecond(total_tokens_per_s=tokens):
                return OfferedLoad(requests_per_s=tokens / self.workload.tokens_per_request)
            case Batch(documents=documents):
                return OfferedLoad(in_flight=min(self.full * fleet.nodes, float(documents)))
            case Budget():
                full = estimate(fleet, self.workload, OfferedLoad(in_flight=self.full * fleet.nodes))
                rate = full.requests_per_s.value * self.question.load_share

                def less(percent: int) -> OfferedLoad:
                    return OfferedLoad(requests_per_s=rate * (1 - percent / 100))

                if not self.question.limits.given:
                    return less(0)
                return less(lowest(lambda by: not self._missed(estimate(fleet, self.workload, less(by))), 0, 99) or 0)

    def _most_within_limits(self, held: float) -> float:
        """Most requests in flight per node, up to `held`, whose latency is within the limits."""
        if not self.question.limits.given:
            return held
        least = self.one.engine.data_parallel

        def missed(per_node: float) -> list[Verdict]:
            offered = OfferedLoad(in_flight=per_node * self.one.nodes)
            return self._missed(estimate(self.one, self.workload, offered))

        if not missed(held):
            return held
        if missed(least):
            # On the most nodes: the interval is wider outside the measured range.
            alone = OfferedLoad(in_flight=float(least * MOST_MACHINES))
            misses = self._missed(estimate(self.one.with_nodes(MOST_MACHINES), self.workload, alone))
            limits = " and ".join(f"{one.name} of {one.limit_ms:,.0f} ms" for one in misses)
            reached = " and ".join(f"{one.name} of {ceil(one.high_ms):,} ms" for one in misses)
            raise PlanImpossibleError(
                f"{limits}: even one request per engine may take longer",
                f"{reached}, with one request per engine",
                max(one.high_ms / one.limit_ms for one in misses),
            )
        beyond = lowest(lambda per_node: bool(missed(per_node)), least, ceil(held))
        return held if beyond is None else float(beyond - 1)

    def _missed_on(self, nodes: int) -> list[Verdict]:
        """Limits that the planned load does not keep on that many nodes: loads below the measured one widen the interval."""
        if not self.question.limits.given:
            return []
        fleet = self.one.with_nodes(nodes)
        return self._missed(estimate(fleet, self.workload, self._offered(fleet)))

    def _missed(self, performance: Performance) -> list[Verdict]:
        """Limits that are not kept; of an upper bound, those that not even the bound keeps: nodes are a lower bound."""
        return [
            one
            for one in _verdicts(self.question, performance)
            if (one.expected_ms if performance.is_bound else one.high_ms) > one.limit_ms
        ]

    def _impossible(self, most: int) -> PlanImpossibleError:
        """Why no number of nodes reaches the goal, and the nearest goal that one does."""
        goal, share = self.question.goal, self.question.load_share
        if isinstance(goal, Batch):
            shortest = self._hours(most)
            nodes = lowest(lambda nodes: self._hours(nodes) <= shortest * _WORTH_A_NODE, self.one.nodes, most) or most
            start = time_to_serve(_first_start(self.question, nodes)).likely_seconds
            hours, count = self._hours(nodes), plural(nodes, "node")
            return PlanImpossibleError(
                f"{goal.documents:,} documents in {_format_hours(self._most_hours)}: with {count}, start-up takes "
                f"{format_duration(start)} and processing {format_duration(hours * SECONDS_PER_HOUR - start)}; more nodes save little",
                f"{_format_hours(hours)} with {count}; with cluster and weights in place start-up is shorter",
                hours / self._most_hours,
            )
        if self._reaches(most):
            miss = self._missed_on(most)[0]
            return PlanImpossibleError(
                f"{miss.name} of {miss.limit_ms:,.0f} ms: {most:,} nodes may still take {miss.high_ms:,.0f} ms",
                f"{miss.name} of {ceil(miss.high_ms):,} ms",
                miss.high_ms / miss.limit_ms,
            )
        rate = share * self._rate(most)
        match goal:
            case Users():
                asked, reached, unit = goal.users, share * self.most * most, "users"
            case RequestsPerSecond():
                asked, reached, unit = goal.requests_per_s, rate, "requests/s"
            case TokensPerSecond():
                asked, reached, unit = goal.total_tokens_per_s, rate * self.workload.tokens_per_request, "total tok/s"
            case _:
                raise AssertionError(goal)
        return PlanImpossibleError(
            f"the goal takes more than {most:,} nodes, the limit of one stack; plan several",
            f"{reached:,.0f} {unit} on {most:,} nodes",
            asked / reached,
        )

    # The plan ---------------------------------------------------------------------------------------------------------

    def on(self, nodes: int) -> Plan:
        """The plan on that many nodes."""
        question, workload, fleet = self.question, self.workload, self.one.with_nodes(nodes)
        offered = self._offered(fleet)
        performance = estimate(fleet, workload, offered)
        maximum = estimate(fleet, workload, OfferedLoad(in_flight=self.full * nodes))
        if isinstance(question.goal, Budget):
            performance = _as_share_of(maximum, performance)
        sizing = self._sizing(fleet, maximum, offered)
        bill = bill_of(question, sizing, nodes)
        way = time_to_serve(_first_start(question, nodes))
        batch = None
        if isinstance(question.goal, Batch):
            batch = batch_run(question, question.goal, performance, bill, way, _restart(question, nodes))
        return Plan(
            question=question,
            nodes=nodes,
            deployment=fleet,
            in_flight_per_node=self.full,
            full_load_limit=self.full_load_limit,
            performance=performance,
            maximum=maximum,
            money=money(question, bill, performance, maximum),
            sizing=sizing,
            time_to_serve=way,
            restart=_restart(question, 1),
            published=_published(question, nodes),
            verdicts=tuple(_verdicts(question, performance)),
            batch=batch,
            remarks=(),
        )

    def _sizing(self, fleet: Deployment, maximum: Performance, offered: OfferedLoad) -> Sizing:
        question = self.question
        assert question.profile.weights_gb is not None
        return size(
            nodes=fleet.nodes,
            machine=question.machine,
            weights_gb=question.profile.weights_gb,
            output_tokens_per_s=maximum.output_tokens_per_s.value,
            tokens_per_chunk=maximum.tokens_per_chunk,
            in_flight=max(maximum.in_flight, offered.in_flight or 0.0),
            gateway=question.routing == "inference-gateway",
        )


def _as_share_of(maximum: Performance, performance: Performance) -> Performance:
    """The planned load of a budget, which is a share of a full load that is itself uncertain."""
    share = performance.requests_per_s.value / maximum.requests_per_s.value
    rates = ("requests_per_s", "total_tokens_per_s", "output_tokens_per_s")
    return replace(performance, **{name: getattr(maximum, name).times(share) for name in rates})


def _verdicts(question: PlanQuestion, performance: Performance) -> Iterator[Verdict]:
    checked: tuple[tuple[Literal["TTFT p99", "TPOT"], float | None, str], ...] = (
        ("TTFT p99", question.limits.ttft_p99_ms, "ttft_p99_ms"),
        ("TPOT", question.limits.tpot_ms, "tpot_ms"),
    )
    for name, limit, reading in checked:
        if limit is not None:
            found = getattr(performance, reading)
            yield Verdict(name=name, limit_ms=limit, expected_ms=found.value, high_ms=found.high)


def _published(question: PlanQuestion, nodes: int) -> figures.Match:
    profile, workload = question.profile, question.workload
    shape = figures.ServingShape(
        model=profile.model,
        engine_version=profile.engine_version,
        machine_type=question.machine.type,
        replicas=nodes,
        gpus_per_replica=question.machine.gpus,
        flags=profile.flags,
        env=profile.env,
        routing=question.routing,
        workload=workload.title,
    )
    return figures.match(shape)


# Start-up -------------------------------------------------------------------------------------------------------------


def _first_start(question: PlanQuestion, nodes: int) -> Start:
    """Start-up of that many nodes from the question's starting point."""
    return _start(question, nodes, cluster=question.starts_from != "nothing", weights=question.starts_from == "weights")


def _restart(question: PlanQuestion, nodes: int) -> TimeToServe:
    """Restart of nodes: cluster and weights in place, caches warm if the stack keeps them."""
    start = _start(question, nodes, cluster=True, weights=True)
    return time_to_serve(replace(start, warm_caches=question.compile_cache))


def _start(question: PlanQuestion, nodes: int, *, cluster: bool, weights: bool) -> Start:
    assert question.profile.weights_gb is not None
    sizing = _size_of(question, nodes)
    return Start(
        weights_gb=question.profile.weights_gb,
        volume_gib=sizing.volume_gib,
        volume_mibps=sizing.volume_mibps,
        readers=ceil(nodes / sizing.volume_copies),
        platform_exists=cluster,
        weights_exist=weights,
        flex_start=_has_flex_start(question),
        gpus=question.machine.gpus,
        articles_machine=question.machine == DEFAULT_MACHINE,
    )


def _has_flex_start(question: PlanQuestion) -> bool:
    """Whether a machine may be waited for at flex-start. A stack's own ComputeClass may be without it."""
    if (
        question.capacity == "compute-class"
        and question.billed is not None
        and question.billed.capacity == "compute-class"
    ):
        return "flex-start" in question.billed.priorities
    return question.capacity in ("flex-start", "compute-class")


def _size_of(question: PlanQuestion, nodes: int) -> Sizing:
    """Infrastructure for that many nodes, regardless of load."""
    assert question.profile.weights_gb is not None
    return size(
        nodes=nodes,
        machine=question.machine,
        weights_gb=question.profile.weights_gb,
        output_tokens_per_s=0.0,
        tokens_per_chunk=1.0,
        in_flight=0.0,
        gateway=question.routing == "inference-gateway",
    )


def _format_hours(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)
