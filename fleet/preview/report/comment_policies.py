"""Policy verdicts in a pull-request comment: blocking ones visible, warnings folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fleet.preview.report.judges import HOW_TO_LAND, Remark, changes_of, remarks_of, rows_of
from fleet.preview.report.verdicts import Verdict, format_counts, shared, verdicts
from fleet.report.markdown import alert, cell, code, escape, fold, prose, table
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.preview.report.model import Policies

_MOST_PLACES = 5
"""Resources listed in one cell."""


def in_sight(policies: Policies, most: int) -> Iterator[str]:
    """The verdict, and up to `most` blocking violations."""
    if policies.state == "none":
        yield "**Policies**: not checked; this project has no policy pack in `policy/`."
        return
    if policies.state == "skipped":
        yield "**Policies**: not checked (`--no-policy`)."
        return
    yield f"**Policies**: {format_counts(policies)} (checked with placeholder cloud ids)"
    remarks = list(remarks_of(policies))
    yield ""
    yield from (f"- {prose(one.text)}" for one in remarks if not one.loud)
    if any(one.loud for one in remarks):
        yield from alert("CAUTION", [f"- {prose(one.text)}" for one in remarks if one.loud])
    stops = [one for one in verdicts(policies) if one.stops]
    if stops:
        yield ""
        yield from _table(stops[:most])
    if len(stops) > most:
        yield ""
        yield f"…and {policies_of(len(stops) - most)} more."


def folded(policies: Policies, most: int) -> Iterator[str]:
    """Further blocking violations, warnings, and policies that a first preview cannot check."""
    found = verdicts(policies)
    beyond = [one for one in found if one.stops][most:]
    advisory = [one for one in found if not one.stops]
    if beyond:
        yield from fold(f"{policies_of(len(beyond))} more with blocking violations", _table(beyond))
    if advisory:
        yield from fold(f"{plural(sum(len(one.findings) for one in advisory), 'warning')}", _table(advisory))
    if policies.unreached:
        yield from fold(
            f"{policies_of(len(policies.unreached))} that a first pulumi preview cannot check yet",
            [
                "They depend on values that are unknown there; here they were checked with placeholders.",
                "",
                *(f"- {code(one.policy)}: {_names(one.urns)}" for one in policies.unreached),
            ],
        )


def _table(found: Sequence[Verdict]) -> list[str]:
    rows = [
        (
            _level(one),
            code(one.policy),
            _names([finding.subject for finding in one.findings]),
            "<br>".join(_message(one)),
        )
        for one in found
    ]
    return table(("level", "policy", "resource", "finding, reason and fix"), rows)


def judges(policies: Policies) -> Iterator[str]:
    """What a change does to its judge, and what both judges say; nothing where the judge stays as it is."""
    rows = rows_of(policies)
    yield from changed_judges(changes_of(policies))
    if rows:
        head, *body = rows
        yield ""
        yield from table(tuple(map(escape, head)), (tuple(map(escape, row)) for row in body))
        yield ""
        yield HOW_TO_LAND


def changed_judges(remarks: Iterable[Remark]) -> Iterator[str]:
    """What a change does to its judge, in a box."""
    if several := list(remarks):
        lines = [f"- {prose(one.text)}" for one in several]
        kind = "CAUTION" if any(one.loud for one in several) else "IMPORTANT"
        yield from alert(kind, ["**This change alters what judges it.**", "", *lines])


def _level(verdict: Verdict) -> str:
    return f"{verdict.level}<br>only by {escape(verdict.by)}" if verdict.by else verdict.level


def _message(verdict: Verdict) -> Iterator[str]:
    whats = list(dict.fromkeys(str(finding.found) for finding in verdict.findings))
    if verdict.statement:
        yield cell(verdict.statement)
    for what in whats[:_MOST_PLACES]:
        yield cell(what)
    if len(whats) > _MOST_PLACES:
        yield f"…and {len(whats) - _MOST_PLACES} more"
    first = verdict.findings[0]
    if allowed := shared(verdict.findings, "allowed") or first.allowed:
        yield f"*Allowed*: {cell(allowed)}"
    if why := shared(verdict.findings, "why") or first.why:
        yield f"*Why*: {cell(why)}"
    if write := shared(verdict.findings, "write") or first.write:
        yield f"**Write**: {cell(write)}"


def policies_of(count: int) -> str:
    """`1 policy`, `2 policies`."""
    return plural(count, "policy", "policies")


def _names(urns: Sequence[str]) -> str:
    names = list(dict.fromkeys(urn.rpartition("::")[2] for urn in urns))
    shown = ", ".join(code(name) for name in names[:_MOST_PLACES] if name)
    return f"{shown} and {len(names) - _MOST_PLACES} more" if len(names) > _MOST_PLACES else shown
