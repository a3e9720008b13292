"""Policy verdicts for reports: findings, how many there are, and what was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.lessons.verdict import REPEATED_ON_PURPOSE
from facts.texts import plural, shortened
from fleet.preview.policy_config import STOPS

if TYPE_CHECKING:
    from fleet.preview.policy import Violation
    from fleet.preview.policy_config import PolicyState
    from fleet.preview.report.model import Policies, Report

_MOST_BLOCKING: Final = 3
"""Blocking policies named in the verdict."""
_LONGEST_CLAUSE: Final = 100
_LONGEST_MESSAGE: Final = 600
"""Characters of each part of a finding; `violations` of the JSON document has the whole message."""
_MOST_NAMES: Final = 6
_MOST_SETTINGS: Final = 12
_LONGEST_VALUE: Final = 80
_ABOVE: Final = re.compile(r"(\$[\d,.]*\d).*? above (\$[\d,.]*\d)")
"""An amount above its ceiling, as policies about money say it."""
_ENDED_BY_A_RULE: Final = "a-rule-failed"


def findings_of(policies: Policies) -> tuple[Finding, ...]:
    """Every violation as a finding: blocking ones first, those of one policy together."""
    ordered = sorted(policies.violations, key=lambda one: (one.level == "advisory", one.policy))
    return tuple(map(_finding, ordered))


def without_told(policies: Policies, told: Iterable[Finding]) -> Policies:
    """Without advice that the checks of the stack file already give about the same lesson, with the key to change."""
    ids = {finding.id for finding in told}
    kept = tuple(one for one in policies.violations if one.level in STOPS or _lesson(one) not in ids)
    return replace(policies, violations=kept)


def _lesson(violation: Violation) -> str:
    """The policy, or the one that is broken on purpose."""
    if violation.policy == REPEATED_ON_PURPOSE:
        return str(violation.finding.found).partition(":")[0]
    return violation.policy


def _finding(violation: Violation) -> Finding:
    said = violation.finding
    on_purpose = said.severity == "deliberate"
    return replace(
        said,
        subject=violation.urn.rpartition("::")[2] or "the stack",
        found=shortened(str(said.found), _LONGEST_MESSAGE),
        allowed=said.allowed or violation.description,
        # The profile's deliberate exception already gives reason and cost.
        why="" if on_purpose else shortened(said.why, _LONGEST_MESSAGE),
        write="" if on_purpose else shortened(said.write, _LONGEST_MESSAGE),
    )


def verdict_of(report: Report) -> tuple[str, bool]:
    """Whether the stack is blocked, in one line; and whether it is."""
    if blocking := format_blocking(report.policies):
        return f"blocked by {blocking}", True
    if errors := sum(diagnostic.severity == "error" for diagnostic in report.diagnostics):
        return f"blocked: the program reports {plural(errors, 'error')}", True
    return ("not blocked" if report.policies.state == "judged" else "policies not checked"), False


def format_blocking(policies: Policies) -> str:
    """`hourly-cost-above-ceiling $545.18 > $420.00`: the blocking policies with what they found, shortly."""
    found: dict[str, str] = {}
    for one in policies.mandatory:
        found.setdefault(one.policy, _clause(str(one.finding.found)))
    named = [f"{policy} {what}" for policy, what in list(found.items())[:_MOST_BLOCKING]]
    return "; ".join([*named, *([f"{len(found) - len(named)} more"] if len(found) > len(named) else [])])


def _clause(what: str) -> str:
    if amounts := _ABOVE.search(what):
        return f"{amounts[1]} > {amounts[2]}"
    clause = re.split(r"\. | \(|\n|; at stake", what, maxsplit=1)[0]
    shown = clause if len(clause) <= _LONGEST_CLAUSE else f"{clause[: _LONGEST_CLAUSE - 1]}…"
    return f"({shown})"


def format_gaps(policies: Policies) -> str:
    """Policies that are not asked, or not at their own level, as one phrase; empty without any."""
    disabled, lowered = _disabled(policies), _lowered(policies)
    asked, total = len(policies.states) - len(disabled), plural(len(policies.states), "policy", "policies")
    parts = [f"{asked} of {total} asked"] if disabled else []
    return ", ".join([*parts, *([f"{len(lowered)} lowered to warnings"] if lowered else [])])


def _disabled(policies: Policies) -> list[PolicyState]:
    return [state for state in policies.states if state.disabled]


def _lowered(policies: Policies) -> list[PolicyState]:
    return [state for state in policies.states if state.lowered]


def remarks_of(policies: Policies) -> Iterator[str]:
    """What was asked, what the configuration sets and what it switches off, or why nothing was asked."""
    if policies.state != "judged":
        why = "--no-policy" if policies.state == "skipped" else "this project has no policy pack in `policy/`"
        yield f"Policies were not checked: {why}."
        return
    total, disabled, lowered = len(policies.states), _disabled(policies), _lowered(policies)
    settings = [
        f"{state.name}.{name} {_value(state.settings[name])}" for state in policies.states for name in state.given
    ]
    told = "; ".join(settings[:_MOST_SETTINGS])
    if len(settings) > _MOST_SETTINGS:
        told += f" and {len(settings) - _MOST_SETTINGS} more"
    file = f"{policies.file} sets {told or 'no limit'}" if policies.file else "the stack has no file of limits"
    asked = f"{total - len(disabled):,} of " if disabled else ""
    yield f"{asked}{plural(total, 'policy', 'policies')} asked, about placeholders of cloud ids; {file}."
    if disabled:
        mandatory = [state for state in disabled if state.own in STOPS]
        yield f"Disabled ({len(disabled)}, {len(mandatory)} mandatory): {_names([*mandatory, *disabled])}."
    if lowered:
        yield f"Mandatory, lowered to warnings: {_names(lowered)}."
    if silent := sorted(set(_without_verdict(policies.violations))):
        yield f"{plural(len(silent), 'policy', 'policies')} could not judge: {', '.join(silent[:_MOST_NAMES])}."


def _names(states: Sequence[PolicyState]) -> str:
    names = list(dict.fromkeys(f"{state.name} by {state.by}" if state.by else state.name for state in states))
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown


def _value(value: object) -> str:
    text = "not set" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _without_verdict(violations: Iterable[Violation]) -> Iterator[str]:
    """Policies that gave up over an unknown value or ended with an error."""
    for violation in violations:
        if violation.policy == _ENDED_BY_A_RULE or violation.message.startswith(
            f"can't run policy '{violation.policy}' "
        ):
            yield violation.policy
