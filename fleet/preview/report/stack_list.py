"""One line per stack: verdict, changes, price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.lessons.verdict import REPEATED_ON_PURPOSE
from facts.texts import plural
from fleet.preview.compare.engine_words import engine_words
from fleet.preview.compare.wording import format_after, format_before
from fleet.preview.report.judges import format_gaps
from fleet.preview.report.several_stacks import Refusal
from fleet.preview.report.wording import format_rate

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, Delta
    from fleet.preview.report.model import Policies, Report
    from fleet.preview.report.several_stacks import Outcome

USD_PER_HOUR = "usd-per-hour"
TOKENS_PER_SECOND = "tokens-per-second"
_MOST_EFFECTS = 5
"""Maximum of effects shown; the stack's own headline has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackLine:
    """Status of one stack."""

    stack: str
    verdict: str
    change: tuple[str, ...]
    """Changes, one phrase each."""
    price: str
    rate: str
    stops: bool
    """A refused stack, or blocking policy violations."""
    warns: bool
    """A danger or a warning."""


def line_of(outcome: Outcome) -> StackLine:
    """The stack's line."""
    if isinstance(outcome, Refusal):
        return StackLine(
            stack=outcome.stack,
            verdict="cannot be previewed",
            change=(outcome.message.partition("\n")[0],),
            price="",
            rate="",
            stops=True,
            warns=False,
        )
    changes = outcome.comparison
    created = plural(len(outcome.changes), "resource") + " to create"
    return StackLine(
        stack=outcome.recording.stack,
        verdict=format_verdict(outcome.policies, changes),
        change=(created,) if changes is None else _changed(changes),
        price=_price(_delta(changes, USD_PER_HOUR)) or outcome.figures.bill.format_hourly_total(),
        rate=_rate(outcome, _delta(changes, TOKENS_PER_SECOND)),
        stops=bool(outcome.policies.mandatory),
        warns=bool(
            _to_look_at(outcome.policies)
            or format_gaps(outcome.policies)
            or (changes and changes.dangers)
            or outcome.dangers
        ),
    )


def _changed(changes: Changes) -> tuple[str, ...]:
    """What changes in the servers, then the effects."""
    words = engine_words(changes.resources)
    return (*([words] if words else []), *changes.effects, *changes.aftermath)[:_MOST_EFFECTS]


def format_verdict(policies: Policies, changes: Changes | None) -> str:
    """Short verdict on policies and dangers."""
    mandatory, advisory, on_purpose = len(policies.mandatory), _to_look_at(policies), _on_purpose(policies)
    parts = [plural(mandatory, "blocking violation")] if mandatory else []
    if changes is not None and changes.dangers:
        parts.append(plural(len(changes.dangers), "danger"))
    if advisory:
        parts.append(plural(advisory, "warning"))
    if gaps := format_gaps(policies):
        parts.append(gaps)
    if not parts:
        parts.append("no violations" if policies.state == "judged" else "policies not checked")
    return ", ".join([*parts, *([plural(on_purpose, "deliberate exception")] if on_purpose else [])])


def _on_purpose(policies: Policies) -> int:
    return sum(violation.policy == REPEATED_ON_PURPOSE for violation in policies.violations)


def _to_look_at(policies: Policies) -> int:
    noted = sum(violation.rated == "note" for violation in policies.violations)
    return len(policies.violations) - len(policies.mandatory) - _on_purpose(policies) - noted


def _price(delta: Delta | None) -> str:
    return "" if delta is None else f"{format_before(delta)} → {format_after(delta)} an hour"


def _rate(report: Report, delta: Delta | None) -> str:
    """The rate with its label, and the former one if different."""
    before = f"{format_before(delta)} → " if delta is not None and delta.before is not None else ""
    return before + format_rate(report)


def _delta(changes: Changes | None, id_: str) -> Delta | None:
    """A number that changes."""
    deltas = changes.deltas if changes is not None else ()
    return next((one for one in deltas if one.id == id_ and one.changed), None)
