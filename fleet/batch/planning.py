"""Plans a batch that was read from a file: its load, the fleets that process it, and which of them keep deadline and ceiling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from facts.capacity import FLEX_START_MAX_SECONDS
from facts.machines import MACHINES
from facts.models import CATALOGUE
from facts.user_error import UserError
from facts.workloads import Lengths, Workload
from fleet.batch.scan import Context, Scan
from fleet.batch.tokenizer_file import Pinned
from fleet.plan.anywhere import Refused, market, offers_on
from fleet.plan.asked import Asked, Capacity
from fleet.plan.planning import batch_with, plan_batch_on, plan_offer
from fleet.plan.question.asking import BATCH_PROFILE, question_of
from fleet.plan.question.fitting import model_facts
from fleet.plan.question.goals import Batch, PlanImpossibleError, PlanQuestion, parse_hours, way_of
from fleet.plan.question.profiles import profile_facts, profiles_for

if TYPE_CHECKING:
    from facts.model_config import ModelShape
    from fleet.plan.plan import BatchRun, Plan
    from settings.stack import Settings

COMPARED: Final[tuple[Capacity, ...]] = ("spot", "flex-start")
"""Capacities for work that ends: no commitment, and no reservation in advance."""
_HOURS_OF_FLEX_START: Final = FLEX_START_MAX_SECONDS / 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a file asks of a fleet."""

    scan: Scan
    output_tokens: int
    """Mean answer."""
    is_upper_end: bool
    """Whether that is the mean of the lines' limits, which answers reach at most."""

    @property
    def longest_output(self) -> int:
        """Longest answer that a line allows; the mean where a line has no limit."""
        return max(self.output_tokens, self.scan.most_output)

    @property
    def mean_input(self) -> int:
        """Tokens of a prompt, halfway."""
        return max(1, round(self.scan.input_tokens.middle))

    @property
    def longest_input(self) -> int:
        """Tokens of the longest prompt that was counted."""
        return max(self.mean_input, self.scan.longest_input)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The batch on one machine with one capacity."""

    plan: Plan
    run: BatchRun
    low: BatchRun
    """With the fewest tokens that prompts may have."""
    high: BatchRun
    """With the most."""
    misses: tuple[str, ...]
    """Why it is no answer."""

    @property
    def capacity(self) -> Capacity:
        """How its nodes are bought."""
        return self.plan.question.capacity

    @property
    def is_bound(self) -> bool:
        """Whether the GPU was never measured, so that hours and dollars are lower bounds."""
        return self.plan.is_bound

    @property
    def hours(self) -> tuple[float, float]:
        """From the first command to the last answer, at best and at worst."""
        return self.run.start_hours + self.low.work_low_hours, self.run.start_hours + self.high.work_high_hours

    @property
    def usd(self) -> tuple[float, float] | None:
        """Cost at best and at worst, known prices only."""
        if self.low.usd_low is None or self.high.usd_high is None:
            return None
        return self.low.usd_low, self.high.usd_high


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Options, cheapest first, and why others are none."""

    options: tuple[Option, ...]
    refused: tuple[Refused, ...]

    @property
    def best(self) -> Option | None:
        """The cheapest that keeps deadline and ceiling, on a measured GPU if there is one."""
        return next((option for option in self.options if not option.misses), None)


def load_of(scan: Scan, output_tokens: int | None) -> Load:
    """The load of a file. Raises UserError if the length of answers is unknown, or longer than the lines allow."""
    unlimited = scan.unlimited
    if output_tokens is None:
        if unlimited:
            raise UserError(
                f"{unlimited:,} of {scan.documents:,} lines do not limit their answers, the first is line {scan.first_unlimited:,}, so the "
                "length of answers is unknown; pass their mean with --output-tokens, write max_tokens in each line, or batch.defaults "
                "{maxTokens: 500} in the stack file"
            )
        return Load(scan=scan, output_tokens=max(1, round(scan.output_limits / scan.documents)), is_upper_end=True)
    if not unlimited and output_tokens > scan.output_limits / scan.documents:
        raise UserError(
            f"--output-tokens {output_tokens}: above the mean limit of the lines, {scan.output_limits / scan.documents:,.0f}: answers end "
            "there; pass less, or nothing to count on the limits"
        )
    return Load(scan=scan, output_tokens=output_tokens, is_upper_end=False)


class Machines:
    """Fleets that options choose: a machine, or every machine."""

    def __init__(self, asked: Asked) -> None:
        """Raises UserError for invalid options."""
        self._asked = asked
        anywhere = asked.machine is None
        # A model that does not fit this machine is refused; of every machine, those that it does not fit are.
        question_of(_asked_for(replace(asked, model=None) if anywhere else asked, 1, (1, 1), (1, 1)))
        usual = profile_facts(asked.profile or BATCH_PROFILE)
        longest = usual if asked.profile else profiles_for(1)[-1]
        self.shape: ModelShape = usual.model_shape if asked.model is None else model_facts(asked.model)[0]
        id_ = asked.model or usual.model
        listed = CATALOGUE.get(id_)
        self.model = Pinned(id=id_, revision=listed.revision if listed else None)
        self.served = id_ if listed else None
        contexts = [(one.shape.max_model_len_tokens, f"profile {one.name}") for one in (usual, longest)]
        least, most = (min(one, (self.shape.context_tokens, self.shape.name)) for one in contexts)
        self.context = Context(least=least[0], most=most[0], whose=most[1])

    def options(self, load: Load, max_usd: float | None, *, deadline: bool = True) -> Answer:
        """Every option. Without `deadline`, the smallest fleets."""
        asked = _asked_for(
            self._asked,
            load.scan.documents,
            (load.mean_input, load.longest_input),
            (load.output_tokens, load.longest_output),
        )
        asked = asked if deadline else replace(asked, deadline=None)
        refused: tuple[Refused, ...] = ()
        try:
            if asked.machine is None:
                found = market(asked)
                plans, refused = [offer.plan for offer in found.offers], found.refused
            else:
                plans = [offer.plan for offer in offers_on(asked, MACHINES[asked.machine])]
        except PlanImpossibleError as error:
            return Answer(options=(), refused=(_refused(str(asked.machine), error),))
        wanted = COMPARED if asked.capacity is None else (asked.capacity,)
        chosen = (plan for plan in plans if plan.question.capacity in wanted)
        return _answer(chosen, refused, load, max_usd)


class OfStack:
    """Fleets of a stack's model, engine, machine and region."""

    def __init__(self, name: str, settings: Settings, asked: Asked) -> None:
        """Raises UserError for a stack that is not planned."""
        from fleet.plan.from_settings import facts_of_stack
        from settings.derived.figures import fleet_shape

        if settings.gpus_per_replica != settings.machine.gpus:
            raise UserError(
                f"Pulumi.{name}.yaml: a replica has {settings.gpus_per_replica} of a node's {settings.machine.gpus} GPUs, and a plan is of "
                "whole nodes; pass --machine, --model and --profile instead of --stack"
            )
        self._settings, self._asked, self._facts = settings, asked, facts_of_stack(settings)
        # The benchmark's machines run for minutes, and not beside a batch.
        self._billed = replace(fleet_shape(settings), benchmark_machine_type=None)
        served = settings.serving.model
        self.model = Pinned(id=served.id, revision=served.revision)
        self.served: str | None = settings.serving.served_model_name
        try:
            self.shape: ModelShape = self._facts.model_shape
            self._deadline = None if asked.deadline is None else parse_hours(asked.deadline)
        except (LookupError, ValueError) as error:
            raise UserError(str(error)) from None
        longest = self._facts.shape.max_model_len_tokens
        self.context = Context(least=longest, most=longest, whose=f"stack {name}")

    def options(self, load: Load, max_usd: float | None, *, deadline: bool = True) -> Answer:
        """Every option. Without `deadline`, the smallest fleets."""
        question = self._question(load, deadline=deadline)
        plans: list[Plan] = []
        refused: list[Refused] = []
        for capacity in dict.fromkeys((question.capacity, *COMPARED)):
            if way_of(capacity) in self._settings.machine.ways:
                # A price that the stack file states is that of its own capacity.
                stated = question.usd_per_node_hour if capacity == question.capacity else None
                try:
                    plans.append(plan_offer(replace(question, capacity=capacity, usd_per_node_hour=stated)))
                except PlanImpossibleError as error:
                    refused.append(_refused(capacity, error))
        return _answer(plans, refused, load, max_usd)

    def own(self, load: Load, hours: float | None) -> Option:
        """The fewest servers that end it in that many hours, as the stack buys them. Raises PlanImpossibleError if no number does."""
        goal = Batch(documents=load.scan.documents, deadline_hours=hours)
        return _option(plan_offer(replace(self._question(load), goal=goal)), load, None)

    def on(self, load: Load, servers: int) -> Option:
        """The batch on that many servers. Raises PlanImpossibleError if a document does not fit."""
        return _option(plan_batch_on(self._question(load), servers), load, None)

    def _question(self, load: Load, *, deadline: bool = True) -> PlanQuestion:
        asked, settings = self._asked, self._settings
        return PlanQuestion(
            goal=Batch(documents=load.scan.documents, deadline_hours=self._deadline if deadline else None),
            profile=self._facts,
            workload=Workload(
                input_tokens=_lengths(load.mean_input, load.longest_input),
                output_tokens=_lengths(load.output_tokens, load.longest_output),
            ),
            machine=settings.machine,
            capacity=settings.placement.price_key,
            routing="inference-gateway" if settings.has_picker else "cluster-ip",
            load_share=asked.load_share,
            region=settings.region,
            usd_per_node_hour=settings.capacity.usd_per_node_hour,
            billed=self._billed,
            starts_from=asked.starts_from,
            compile_cache=settings.server.compile_cache.enabled,
        )


def _asked_for(asked: Asked, documents: int, input_tokens: tuple[int, int], output_tokens: tuple[int, int]) -> Asked:
    return replace(
        asked,
        documents=documents,
        input_tokens=input_tokens[0],
        longest_input=input_tokens[1],
        output_tokens=output_tokens[0],
        longest_output=output_tokens[1],
    )


def _refused(what: str, error: PlanImpossibleError) -> Refused:
    return Refused(machines=(what,), why=error.why, nearest=error.nearest)


def _lengths(mean: int, longest: int) -> Lengths:
    return Lengths(min=mean if mean == longest else 1, mean=mean, max=longest)


def _answer(plans: Iterable[Plan], refused: Sequence[Refused], load: Load, max_usd: float | None) -> Answer:
    def order(option: Option) -> tuple[bool, float]:
        return option.is_bound, float("inf") if option.run.usd is None else option.run.usd

    options = sorted((_option(plan, load, max_usd) for plan in plans), key=order)
    return Answer(options=tuple(options), refused=tuple(refused))


def _option(plan: Plan, load: Load, max_usd: float | None) -> Option:
    run, tokens = plan.batch, load.scan.input_tokens
    assert run is not None
    # The planner's mean is rounded.
    means = min(tokens.low, load.mean_input), max(tokens.high, load.mean_input)
    ends = [batch_with(plan, _with_mean(plan.question.workload, mean)) for mean in means]
    option = Option(plan=plan, run=run, low=ends[0], high=ends[1], misses=())
    return replace(option, misses=tuple(_misses(option, max_usd)))


def _with_mean(workload: Workload, mean: float) -> Workload:
    lengths, mean = workload.input_tokens, max(1.0, mean)
    return replace(
        workload, input_tokens=Lengths(min=min(lengths.min, int(mean)), mean=mean, max=max(lengths.max, ceil(mean)))
    )


def _misses(option: Option, max_usd: float | None) -> Iterator[str]:
    if option.capacity == "flex-start" and option.run.total_hours > _HOURS_OF_FLEX_START:
        yield "a flex-start node ends after 7 days"
    if max_usd is not None:
        if option.usd is None:
            yield "its price is unknown"
        elif option.usd[1] > max_usd:
            yield f"may cost ${option.usd[1]:,.2f}"
