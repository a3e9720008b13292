"""Several stacks in one report: each previewed in turn, and what keeps one from its preview does not keep the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fleet.preview.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A stack that could not be previewed, and why, in words for a person."""

    stack: str
    message: str


Outcome: TypeAlias = "Report | Refusal"


def stack_of(outcome: Outcome) -> str:
    """The name of the stack that an outcome is about."""
    return outcome.stack if isinstance(outcome, Refusal) else outcome.recording.stack


def reports_of(outcomes: Sequence[Outcome]) -> list[Report]:
    """The previews that came off, in their order."""
    return [one for one in outcomes if not isinstance(one, Refusal)]


def refusals_of(outcomes: Sequence[Outcome]) -> list[Refusal]:
    """The stacks that have none."""
    return [one for one in outcomes if isinstance(one, Refusal)]


def is_quiet(outcome: Outcome) -> bool:
    """Whether a comparison found nothing to look at: one line tells it all."""
    if isinstance(outcome, Refusal) or (changes := outcome.comparison) is None:
        return False
    failed = any(one.severity == "error" for one in outcome.diagnostics)
    return not (changes.pending or changes.dangers or outcome.policies.mandatory or failed)


def by_weight(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Refused stacks first, then those that change or break a policy, unchanged ones last; each group in the given order."""
    return tuple(sorted(outcomes, key=lambda one: 0 if isinstance(one, Refusal) else 1 + is_quiet(one)))


def preview_each(
    stacks: Sequence[str], preview: Callable[[str], Report], words: Callable[[Exception], str]
) -> tuple[Outcome, ...]:
    """Preview the stacks one after the other: an SDK and its runtime serve one program at a time.

    Whatever keeps one from its preview becomes a `Refusal` in the words that `words` finds for it: a refused setting, a program
    that fails, nothing to compare with, and a defect too, so that the other stacks are reported.
    """
    outcomes: list[Outcome] = []
    for stack in stacks:
        try:
            outcomes.append(preview(stack))
        except Exception as error:
            outcomes.append(Refusal(stack=stack, message=words(error)))
    return tuple(outcomes)
