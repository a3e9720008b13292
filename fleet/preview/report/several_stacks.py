"""Previews of several stacks in one report; a failure of one does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fleet.preview.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A stack that could not be previewed, with the error message."""

    stack: str
    message: str


Outcome: TypeAlias = "Report | Refusal"


def stack_of(outcome: Outcome) -> str:
    """The stack's name."""
    return outcome.stack if isinstance(outcome, Refusal) else outcome.recording.stack


def reports_of(outcomes: Sequence[Outcome]) -> list[Report]:
    """The successful previews, in order."""
    return [outcome for outcome in outcomes if not isinstance(outcome, Refusal)]


def refusals_of(outcomes: Sequence[Outcome]) -> list[Refusal]:
    """The stacks without a preview."""
    return [outcome for outcome in outcomes if isinstance(outcome, Refusal)]


def is_quiet(outcome: Outcome) -> bool:
    """Whether a comparison found nothing to report."""
    if isinstance(outcome, Refusal) or (changes := outcome.comparison) is None:
        return False
    failed = any(diagnostic.severity == "error" for diagnostic in outcome.diagnostics)
    return not (changes.pending or changes.dangers or outcome.policies.mandatory or failed)


def by_weight(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Refused stacks first, then those that change or break a policy, unchanged ones last; each group in the given order."""
    return tuple(sorted(outcomes, key=lambda one: 0 if isinstance(one, Refusal) else 1 + is_quiet(one)))


def preview_each(
    stacks: Sequence[str], preview: Callable[[str], Report], words: Callable[[Exception], str]
) -> tuple[Outcome, ...]:
    """Preview the stacks one after another: the SDK's runtime serves one program at a time.

    A failure becomes a `Refusal` with the message from `words`: a refused setting, a program
    error, a missing baseline, or a defect. The other stacks are still reported.
    """
    outcomes: list[Outcome] = []
    for stack in stacks:
        try:
            outcomes.append(preview(stack))
        except Exception as error:
            outcomes.append(Refusal(stack=stack, message=words(error)))
    return tuple(outcomes)
