"""A batch that was read from a file as a question to the planner: its load, and the fleets that may process it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from facts.models import CATALOGUE
from facts.user_error import UserError
from facts.workloads import Lengths, Workload
from fleet.batch.scan import Context, Scan
from fleet.batch.tokenizer_file import Pinned
from fleet.plan.asked import Asked, Capacity
from fleet.plan.planning import batch_with, plan_batch_on, plan_offer
from fleet.plan.question.asking import BATCH_PROFILE, question_of
from fleet.plan.question.fitting import model_facts
from fleet.plan.question.goals import Batch, PlanQuestion, parse_hours
from fleet.plan.question.profiles import profile_facts, profiles_for

if TYPE_CHECKING:
    from facts.model_config import ModelShape
    from fleet.plan.plan import BatchRun, Plan
    from settings.stack import Settings


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

    def asked(self, load: Load) -> Asked:
        """The options with the file's documents and lengths."""
        return _asked_for(
            self._asked,
            load.scan.documents,
            (load.mean_input, load.longest_input),
            (load.output_tokens, load.longest_output),
        )


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
        self.name = name
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

    def own(self, load: Load, hours: float | None) -> Option:
        """The fewest servers that end it in that many hours, as the stack buys them. Raises PlanImpossibleError if no number does."""
        goal = Batch(documents=load.scan.documents, deadline_hours=hours)
        return _option(plan_offer(replace(self.question(load), goal=goal)), load)

    def on(self, load: Load, servers: int) -> Option:
        """The batch on that many servers. Raises PlanImpossibleError if a document does not fit."""
        return _option(plan_batch_on(self.question(load), servers), load)

    def question(self, load: Load) -> PlanQuestion:
        """The batch on the stack as it is bought."""
        asked, settings = self._asked, self._settings
        return PlanQuestion(
            goal=Batch(documents=load.scan.documents, deadline_hours=self._deadline),
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


def _lengths(mean: int, longest: int) -> Lengths:
    return Lengths(min=mean if mean == longest else 1, mean=mean, max=longest)


def _option(plan: Plan, load: Load) -> Option:
    run, tokens = plan.batch, load.scan.input_tokens
    assert run is not None
    # The planner's mean is rounded.
    means = min(tokens.low, load.mean_input), max(tokens.high, load.mean_input)
    low, high = (batch_with(plan, _with_mean(plan.question.workload, mean)) for mean in means)
    return Option(plan=plan, run=run, low=low, high=high)


def _with_mean(workload: Workload, mean: float) -> Workload:
    lengths, mean = workload.input_tokens, max(1.0, mean)
    return replace(
        workload, input_tokens=Lengths(min=min(lengths.min, int(mean)), mean=mean, max=max(lengths.max, ceil(mean)))
    )
