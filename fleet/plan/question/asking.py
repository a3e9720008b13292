"""Turn command-line options into a question: one goal, request lengths, and a suitable profile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from facts.machines import DEFAULT, DEFAULT_MACHINE, MACHINES, Machine, machine_hint
from facts.model_config import ModelShape
from facts.texts import hint
from facts.user_error import UserError
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.asked import ANY_MACHINE, DEFAULT_CAPACITY, Asked
from fleet.plan.model.gpu_memory import DoesNotFitError
from fleet.plan.question.fitting import fitted, model_facts
from fleet.plan.question.goals import (
    DEFAULT_REGION,
    Batch,
    Budget,
    PlanGoal,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
    parse_hours,
)
from fleet.plan.question.limits import Limits
from fleet.plan.question.profiles import ProfileFacts, profile_facts, profile_names, profiles_for

DEFAULT_WORKLOAD = "article"
DEFAULT_PROFILE = "record"
BATCH_PROFILE = "serve-batch"
SERVING_PROFILE = "serve-chat"
"""Default for other machines and models than the article's."""
_GOALS = ("users", "requests_per_second", "tokens_per_second", "documents", "usd_per_hour")


class AskingError(UserError):
    """Invalid or conflicting options. The message gives the fix."""


class NoFitError(AskingError):
    """The model does not fit all GPUs of the machine together."""

    def __init__(self, why: str, larger: Callable[[], str | None]) -> None:
        """`larger`: the next machine that fits, looked for when the message is shown: that is a plan for each."""
        super().__init__(why)
        self._larger = larger

    def for_user(self) -> str:
        """The message with the next machine that fits."""
        larger = self._larger()
        return super().for_user() + (f". It fits --machine {larger}" if larger else "")


def question_of(asked: Asked, *, for_stack: bool = False) -> PlanQuestion:
    """Build the question. `for_stack`: never default to the record's profile, whose release is old. Raises AskingError with the fix."""
    given = [name for name in _GOALS if getattr(asked, name) is not None]
    if len(given) != 1:
        problem = f"{' and '.join(map(_option, given))} cannot be combined" if given else "the goal is missing"
        raise AskingError(f"{problem}; pass one of {', '.join(map(_option, _GOALS))}")
    if asked.deadline is not None and asked.documents is None:
        raise AskingError("--deadline requires --documents")
    try:
        workload, notes = _workload(asked)
        machine = _machine(asked)
        limits = Limits(ttft_p99_ms=asked.ttft_p99_ms, tpot_ms=asked.tpot_ms)
        profile, chosen = _profile(asked, workload, for_stack=for_stack)
        model = None if asked.model in (None, profile.model) else model_facts(asked.model or "")
        try:
            profile, split_because = fitted(profile, machine, workload, model, limits)
        except DoesNotFitError as error:
            raise NoFitError(str(error), lambda: _larger(profile, machine, workload, model)) from None
        return PlanQuestion(
            goal=_goal(asked),
            profile=profile,
            machine=machine,
            workload=workload,
            limits=limits,
            capacity=asked.capacity or DEFAULT_CAPACITY,
            load_share=asked.load_share,
            region=asked.region or DEFAULT_REGION,
            usd_per_node_hour=asked.usd_per_node_hour,
            starts_from=asked.starts_from,
            split_because=split_because,
            notes=(*chosen, *notes, *_machine_note(asked)),
        )
    except ValueError as error:
        raise AskingError(str(error)) from None


def _larger(
    profile: ProfileFacts, machine: Machine, workload: Workload, model: tuple[ModelShape, float] | None
) -> str | None:
    """The smallest machine with more GPU memory on which the model fits, of the same GPU if there is one."""

    def memory_gib(one: Machine) -> float:
        return one.gpus * one.gpu.memory_gib

    for one in sorted(MACHINES.values(), key=lambda one: (one.gpu != machine.gpu, memory_gib(one))):
        if memory_gib(one) > memory_gib(machine):
            with suppress(DoesNotFitError):
                fitted(profile, one, workload, model)
                return one.type
    return None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _machine(asked: Asked) -> Machine:
    if asked.machine is None:
        return DEFAULT_MACHINE
    if asked.machine not in MACHINES:
        raise AskingError(
            f"--machine {asked.machine} is not known; {machine_hint(asked.machine, (ANY_MACHINE, *MACHINES))}"
        )
    return MACHINES[asked.machine]


def _machine_note(asked: Asked) -> tuple[str, ...]:
    if asked.machine is not None:
        return ()
    return (f"Machine defaults to the article's, {DEFAULT}. --machine {ANY_MACHINE} compares all by price.",)


def _goal(asked: Asked) -> PlanGoal:
    if asked.tokens_per_second is not None:
        return TokensPerSecond(total_tokens_per_s=asked.tokens_per_second)
    if asked.users is not None:
        return Users(users=asked.users)
    if asked.requests_per_second is not None:
        return RequestsPerSecond(requests_per_s=asked.requests_per_second)
    if asked.usd_per_hour is not None:
        return Budget(usd_per_hour=asked.usd_per_hour)
    assert asked.documents is not None
    return Batch(
        documents=asked.documents, deadline_hours=None if asked.deadline is None else parse_hours(asked.deadline)
    )


def _workload(asked: Asked) -> tuple[Workload, tuple[str, ...]]:
    into, out = asked.input_tokens, asked.output_tokens
    if into is not None and out is not None:
        return Workload(
            input_tokens=_lengths(into, asked.longest_input), output_tokens=_lengths(out, asked.longest_output)
        ), ()
    if (into, out) != (None, None) or asked.documents is not None:
        of = " of a document" if asked.documents is not None else ""
        raise AskingError(f"--input-tokens and --output-tokens are required together: mean lengths{of} and its answer")
    workload = named_workload(DEFAULT_WORKLOAD)
    return workload, (
        f"Request lengths default to the article's: {workload.input_tokens.mean:g} tokens in and "
        f"{workload.output_tokens.mean:g} out on average. Set yours with --input-tokens and --output-tokens.",
    )


def _lengths(mean: int, longest: int | None) -> Lengths:
    return Lengths(min=1 if longest and longest > mean else mean, mean=mean, max=longest or mean)


def _profile(asked: Asked, workload: Workload, *, for_stack: bool) -> tuple[ProfileFacts, tuple[str, ...]]:
    if asked.profile is not None:
        names = profile_names()
        if asked.profile not in names:
            raise AskingError(f"--profile {asked.profile} is not known; {hint(asked.profile, names)}")
        return profile_facts(asked.profile), ()
    longest = workload.longest_request_tokens
    articles = asked.machine in (None, DEFAULT) and asked.model is None
    usual = profile_facts(
        BATCH_PROFILE
        if asked.documents is not None
        else DEFAULT_PROFILE
        if articles and not for_stack
        else SERVING_PROFILE
    )
    if longest <= usual.shape.max_model_len_tokens:
        if not (for_stack and articles and asked.documents is None):
            return usual, ()
        record = profile_facts(DEFAULT_PROFILE).engine_version
        return usual, (
            f"A written stack gets profile {usual.name} on vLLM {usual.engine_version}; --profile {DEFAULT_PROFILE} is the article's, "
            f"on vLLM {record}.",
        )
    fitting = profiles_for(longest)
    if not fitting:
        return usual, ()
    context = fitting[0].shape.max_model_len_tokens
    return fitting[0], (
        f"Profile {fitting[0].name} ({context:,} tokens of context) was chosen because requests of up to {longest:,} tokens exceed "
        f"the {usual.shape.max_model_len_tokens:,} of {usual.name}.",
    )
