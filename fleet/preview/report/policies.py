"""Policy verdicts for reports: findings, how many there are, and who judged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.lessons.verdict import REPEATED_ON_PURPOSE
from facts.texts import plural, shortened
from fleet.preview.policy_config import STOPS
from fleet.preview.report.judges import (
    HOW_TO_LAND,
    Remark,
    are_all_asked,
    changes_of,
    format_gaps,
    labels_of,
    remarks_of,
    rows_of,
)
from fleet.report.outline import Box, Element, Findings, Items, Prose, Section, Tone, some
from fleet.report.table import Cell, Table, texts

if TYPE_CHECKING:
    from fleet.preview.policy import Violation
    from fleet.preview.report.model import Policies, Report

_MOST_BLOCKING: Final = 3
"""Blocking policies named in the verdict."""
_LONGEST_CLAUSE: Final = 100
_LONGEST_MESSAGE: Final = 600
"""Characters of each part of a finding; `violations` of the JSON document has the whole message."""
_MOST_VIOLATIONS: Final = 25
"""Blocking violations in sight; the rest is folded."""
_ABOVE: Final = re.compile(r"(\$[\d,.]*\d).*? above (\$[\d,.]*\d)")
"""An amount above its ceiling, as policies about money say it."""


def findings_of(policies: Policies) -> tuple[Finding, ...]:
    """Every violation as a finding: blocking ones first, those of one policy and judge together."""
    labels = labels_of(policies)
    order: dict[tuple[bool, str, tuple[str, ...]], list[Finding]] = {}
    for violation in sorted(policies.violations, key=lambda one: one.level == "advisory"):
        by = labels.get(violation.judges[0], "") if len(violation.judges) == 1 else ""
        order.setdefault((violation.level == "advisory", violation.policy, violation.judges), []).append(
            _finding(violation, by)
        )
    return tuple(finding for several in order.values() for finding in several)


def without_told(policies: Policies, told: Iterable[Finding]) -> Policies:
    """Without advice that the checks of the stack file already give about the same lesson, with the key to change."""
    ids = {finding.id for finding in told}
    kept = tuple(
        violation
        for violation in policies.violations
        if violation.level in STOPS or len(violation.judges) == 1 or _lesson(violation) not in ids
    )
    return replace(policies, violations=kept)


def _lesson(violation: Violation) -> str:
    """The policy, or the one that is broken on purpose."""
    if violation.policy == REPEATED_ON_PURPOSE:
        return str(violation.finding.found).partition(":")[0]
    return violation.policy


def _finding(violation: Violation, by: str) -> Finding:
    said = violation.finding
    on_purpose = said.severity == "deliberate"
    what = shortened(str(said.found), _LONGEST_MESSAGE)
    return replace(
        said,
        subject=violation.urn.rpartition("::")[2] or "the stack",
        found=f"{what}; only by {by}" if by else what,
        allowed=said.allowed or violation.description,
        # The profile's deliberate exception already gives reason and cost.
        why="" if on_purpose else shortened(said.why, _LONGEST_MESSAGE),
        write="" if on_purpose else shortened(said.write, _LONGEST_MESSAGE),
    )


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


def format_counts(policies: Policies) -> str:
    """`no violations`, or `1 blocking violation, 2 warnings`: CrossGuard's mandatory and advisory levels.

    "No violations" only where every policy was asked.
    """
    warnings = sum(violation.level == "advisory" for violation in policies.violations)
    blocking = len(policies.violations) - warnings
    parts = [plural(blocking, "blocking violation")] if blocking else []
    if not policies.violations:
        parts.append("no violations" if are_all_asked(policies) else "nothing found")
    elif not blocking:
        parts.append("no blocking violations")
    return ", ".join(filter(None, (*parts, plural(warnings, "warning") if warnings else "", format_gaps(policies))))


def policy_section(policies: Policies) -> Section:
    """The verdicts, blocking ones first, or why there are none."""
    if policies.state != "judged":
        why = "--no-policy" if policies.state == "skipped" else "this project has no policy pack in `policy/`"
        return Section(title="Policies", body=(Prose(f"not checked: {why}"),), rank=1)
    found = findings_of(policies)
    blocking = tuple(one for one in found if one.blocks)
    rest = tuple(one for one in found if not one.blocks)
    remarks = list(remarks_of(policies))
    body = some(
        Items(quiet) if (quiet := tuple(remark.text for remark in remarks if not remark.loud)) else None,
        _box(remark for remark in remarks if remark.loud),
        Prose("checked with placeholder cloud ids", "soft"),
        Findings(blocking[:_MOST_VIOLATIONS]) if blocking else None,
        _folded(plural(len(blocking) - _MOST_VIOLATIONS, "more blocking violation"), blocking[_MOST_VIOLATIONS:]),
        _folded(plural(len(rest), "warning"), rest),
    )
    return Section(title="Policies", remark=format_counts(policies), body=body, rank=1)


def judge_section(policies: Policies) -> Section | None:
    """What a change does to its judge, and what both judges say; None where the judge stays as it is."""
    remarks, rows = list(changes_of(policies)), rows_of(policies)
    if not remarks and not rows:
        return None
    table: tuple[Element, ...] = ()
    if rows:
        head, *body = rows
        titles = texts(*(name or "what" for name in head))
        judges = Table(
            id="judges",
            caption="Who judges: the pack and limits before and after the change",
            columns=titles,
            rows=tuple(tuple(map(Cell, row)) for row in body),
        )
        table = (judges, Prose(HOW_TO_LAND))
    body_ = (*some(changed_judges(remarks)), *table)
    return Section(title="What judges this change", remark="changed by it", body=body_)


def changed_judges(remarks: Iterable[Remark]) -> Box | None:
    """What a change does to its judge, in a box."""
    several = tuple(remarks)
    tone: Tone = "bad" if any(one.loud for one in several) else "plain"
    items = Items(tuple(one.text for one in several))
    return Box(title="This change alters what judges it.", body=(items,), tone=tone) if several else None


def _box(remarks: Iterable[Remark]) -> Box | None:
    loud = tuple(remark.text for remark in remarks)
    return Box(body=tuple(map(Prose, loud))) if loud else None


def _folded(title: str, found: tuple[Finding, ...]) -> Section | None:
    return Section(title=title, body=(Findings(found),), folding="page", rank=2) if found else None


def verdict_of(report: Report) -> tuple[str, bool]:
    """Whether the stack is blocked, in one line; and whether it is."""
    if blocking := format_blocking(report.policies):
        return f"blocked by {blocking}", True
    if errors := sum(diagnostic.severity == "error" for diagnostic in report.diagnostics):
        return f"blocked: the program reports {plural(errors, 'error')}", True
    return ("not blocked" if report.policies.state == "judged" else "policies not checked"), False
