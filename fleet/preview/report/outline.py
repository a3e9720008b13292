"""The report on one or several stacks: a first screen, and folded sections with the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.preview.compare.engine_words import engine_words
from fleet.preview.compare.wording import format_after, format_before
from fleet.preview.record.redact import Redactor
from fleet.preview.report.policies import format_gaps, verdict_of
from fleet.preview.report.sections import (
    about_section,
    bill_section,
    change_sections,
    effects,
    every_finding,
    finding_sections,
    largest_costs,
    next_section,
    resource_sections,
    throughput_section,
    what_it_is,
)
from fleet.preview.report.several_stacks import Refusal, by_weight, is_quiet, refusals_of, reports_of, stack_of
from fleet.preview.report.wording import format_hourly, format_nature, format_total_rate
from fleet.report.as_json import plain
from fleet.report.outline import Box, Code, Element, Outline, Prose, Section, Tone, some
from fleet.report.table import Cell, Table, texts

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, Delta
    from fleet.preview.report.model import Report
    from fleet.preview.report.several_stacks import Outcome

_MOST_DANGERS: Final = 30
_MOST_EFFECTS: Final = 5
"""Of one row in the table of stacks."""
_MOST_LINES: Final = 40
"""Of the message of a refused stack."""
_LONGEST_LINE: Final = 500
_ROOM_FOR_MESSAGES: Final = 30_000
"""Characters that the messages of all refused stacks share, about half of a comment."""
_ELSEWHERE: Final = "See `--details`."


def preview_outline(*outcomes: Outcome, with_data: bool = False) -> Outline:
    """The whole report. `with_data`: with what the JSON document says, which takes as long as all the rest."""
    outline = _of_one(outcomes[0]) if len(outcomes) == 1 else _of_several(by_weight(outcomes))
    return replace(outline, data=_data(outcomes)) if with_data else outline


def _of_one(outcome: Outcome) -> Outline:
    if isinstance(outcome, Refusal):
        body = (Code(tuple(_message(outcome, _ROOM_FOR_MESSAGES))),)
        return Outline(title=outcome.stack, verdict="cannot be previewed", tone="bad", body=body, elsewhere=_ELSEWHERE)
    changes = outcome.comparison
    verdict, tone = _verdict(outcome)
    return Outline(
        title=f"{outcome.recording.project} / {outcome.recording.stack}",
        kind=f"offline preview against {changes.against}" if changes is not None else "offline preview",
        verdict=verdict,
        tone=tone,
        head=tuple(_head(outcome)),
        body=tuple(_body(outcome)),
        elsewhere=_ELSEWHERE,
    )


def _verdict(report: Report) -> tuple[str, Tone]:
    """Blocked or not, by what; then how much changes."""
    verdict, is_blocked = verdict_of(report)
    changes = report.comparison
    dangers = len(report.dangers) + (len(changes.dangers) if changes is not None else 0)
    gaps = format_gaps(report.policies)
    parts = [verdict, *([plural(dangers, "danger")] if dangers else []), *([gaps] if gaps else [])]
    if changes is not None:
        parts.append(f"against {changes.against}" if changes.pending else f"no changes against {changes.against}")
    tone: Tone = "bad" if is_blocked else "warn" if dangers or gaps else "good"
    return ", ".join(parts), tone


def _head(report: Report, *, dangers_are_told: bool = False) -> Iterator[Element]:
    if report.comparison is None:
        yield from what_it_is(report)
    else:
        yield from effects(report.comparison, dangers_are_told=dangers_are_told)


def _body(report: Report) -> Iterator[Section]:
    """The first screen, then the folded sections with the rest."""
    changes = report.comparison
    if changes is None:
        sections: tuple[Section | None, ...] = (
            largest_costs(report),
            *finding_sections(report),
            *resource_sections(report),
            next_section(report),
            throughput_section(report),
        )
    else:
        stack = Section(title="The stack", body=tuple(what_it_is(report)), folding="always", rank=1)
        sections = (
            *finding_sections(report),
            next_section(report),
            *change_sections(report, changes),
            stack,
            throughput_section(report),
        )
    shown = (one for one in (*sections, bill_section(report), about_section(report)) if one is not None)
    # What is folded comes last.
    yield from sorted(shown, key=lambda section: section.folding != "open")


# Several stacks -------------------------------------------------------------------------------------------------------


def _of_several(outcomes: Sequence[Outcome]) -> Outline:
    reports, refusals = reports_of(outcomes), refusals_of(outcomes)
    verdict, tone = _worst(reports, list(map(stack_of, refusals)))
    against = sorted({report.comparison.against for report in reports if report.comparison is not None})
    compared = f"Compared with {', '.join(f'`{one}`' for one in against)}."
    return Outline(
        title=f"Preview of {plural(len(outcomes), 'stack')}",
        kind="offline preview",
        verdict=verdict,
        tone=tone,
        head=some(_dangers(reports), _table(outcomes), Prose(compared) if against else None),
        body=tuple(_stack(outcome, len(refusals)) for outcome in outcomes),
        footer=(format_nature(reports),),
        elsewhere=_ELSEWHERE,
    )


def _worst(reports: Sequence[Report], refused: Sequence[str]) -> tuple[str, Tone]:
    blocked = [stack_of(report) for report in reports if verdict_of(report)[1]]
    worst = []
    if refused:
        worst.append(f"{plural(len(refused), 'stack')} cannot be previewed ({', '.join(refused)})")
    if blocked:
        worst.append(f"{plural(len(blocked), 'stack')} blocked ({', '.join(blocked)})")
    if worst:
        return ", ".join(worst), "bad"
    compared = [report.comparison for report in reports if report.comparison is not None]
    if not compared:
        warned = [stack_of(report) for report in reports if _warns(report)]
        return (
            (f"warnings in {plural(len(warned), 'stack')} ({', '.join(warned)})", "warn")
            if warned
            else ("no problems", "good")
        )
    changing = [stack_of(report) for report in reports if report.comparison is not None and report.comparison.pending]
    if not changing:
        return "no stack changes", "good"
    return f"{len(changing)} of {plural(len(compared), 'stack')} changed: {', '.join(changing)}", "plain"


def _warns(report: Report) -> bool:
    return bool(report.dangers) or any(one.severity == "warning" for one in every_finding(report))


def _dangers(reports: Sequence[Report]) -> Box | None:
    found = [
        f"`{stack_of(report)}`: {text}"
        for report in reports
        for text in (
            *(danger.message for danger in (report.comparison.dangers if report.comparison else ())),
            *report.dangers,
        )
    ]
    rest = len(found) - _MOST_DANGERS
    shown = [*found[:_MOST_DANGERS], *([f"and {plural(rest, 'more danger')}"] if rest > 0 else [])]
    return Box(body=tuple(map(Prose, shown))) if found else None


def _table(outcomes: Sequence[Outcome]) -> Table:
    return Table(
        id="stacks",
        caption="Verdict, changes, price and throughput of every stack",
        columns=texts("stack", "verdict", "what changes", "price", "throughput"),
        rows=tuple(tuple(map(Cell, row_of(outcome))) for outcome in outcomes),
    )


def row_of(outcome: Outcome) -> tuple[str, str, str, str, str]:
    """One stack: its name, verdict, changes, price, and rate with its label."""
    if isinstance(outcome, Refusal):
        return outcome.stack, "✗ cannot be previewed", outcome.message.partition("\n")[0], "", ""
    changes = outcome.comparison
    verdict, tone = _verdict(replace(outcome, comparison=None))
    mark = "✗" if tone == "bad" else "!" if tone == "warn" or _warns(outcome) else "✓"
    price, rate = _moved(changes, "usd-per-hour"), _moved(changes, "tokens-per-second")
    return (
        stack_of(outcome),
        f"{mark} {verdict}",
        f"{len(outcome.created)} to create" if changes is None else "; ".join(_changed(outcome, changes)),
        f"{format_before(price)} → {format_after(price)} an hour"
        if price is not None
        else format_hourly(outcome.figures.bill),
        (f"{format_before(rate)} → " if rate is not None and rate.before is not None else "")
        + format_total_rate(outcome),
    )


def _changed(report: Report, changes: Changes) -> tuple[str, ...]:
    """What changes in the servers, then the effects."""
    if is_quiet(report):
        return ("no changes",)
    words = ", ".join(engine_words(changes))
    return (*([words] if words else []), *changes.effects, *changes.aftermath)[:_MOST_EFFECTS]


def _moved(changes: Changes | None, id_: str) -> Delta | None:
    """A number that changes."""
    return next((one for one in (changes.deltas if changes else ()) if one.id == id_ and one.changed), None)


def _stack(outcome: Outcome, refused: int) -> Section:
    """One of several stacks: on a terminal the table tells of each; those without changes are folded everywhere."""
    if isinstance(outcome, Refusal):
        message = Code(tuple(_message(outcome, _ROOM_FOR_MESSAGES // refused)))
        return Section(title=outcome.stack, remark="cannot be previewed", body=(message,), tone="bad")
    is_folded = is_quiet(outcome)
    return Section(
        title=stack_of(outcome),
        remark=_verdict(outcome)[0],
        body=(*_head(outcome, dangers_are_told=True), *_body(outcome)),
        folding="always" if is_folded else "screen",
        rank=2 if is_folded else 0,
    )


def _message(refusal: Refusal, room: int) -> Iterator[str]:
    """The error message, limited in length."""
    lines = [line[:_LONGEST_LINE] for line in refusal.message.splitlines()]
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if number and (number >= _MOST_LINES or room < 0):
            yield f"({plural(len(lines) - number, 'more line')})"
            return
        yield line


# The JSON document ----------------------------------------------------------------------------------------------------


def _data(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One stack's document; of several: `stacks`, a list of such documents, and `refused`."""
    if len(outcomes) == 1 and not isinstance(outcomes[0], Refusal):
        return _document(outcomes[0])
    return {
        "stacks": [
            {**_document(one), "findings": [finding.as_json() for finding in every_finding(one)]}
            for one in reports_of(outcomes)
        ],
        "refused": [plain(one) for one in refusals_of(outcomes)],
    }


def _document(report: Report) -> dict[str, Any]:
    """The report's data. Secrets read `[secret]`, unknown values `[unknown]`."""
    recording, figures, changes = report.recording, report.figures, report.comparison
    redacted = Redactor(recording.plaintexts).value
    return dict(
        redacted(
            {
                "project": recording.project,
                "stack": recording.stack,
                "mode": recording.mode,
                "resources": [_resource(one) for one in recording.resources],
                "outputs": recording.outputs,
                "violations": [{**plain(one), **one.finding.as_json()} for one in report.policies.violations],
                "changes": None
                if changes is None
                else {
                    **plain(replace(changes, resources=changes.changed)),
                    "summary": changes.summary,
                    "pending": changes.pending,
                    "engine": ", ".join(engine_words(changes)),
                    "headline": changes.headline,
                },
                "plan": {
                    "fleet": plain(report.fleet),
                    "usdPerHour": figures.bill.usd_per_hour,
                    "usdPerHourIsAtLeast": bool(figures.bill.unknown),
                    "usdPerMillionTokens": figures.usd_per_million_tokens,
                    "usdPerMillionOutputTokens": figures.usd_per_million_output_tokens,
                    "tokensPerSecond": figures.total_tokens_per_s,
                    "bill": plain(figures.bill),
                    "match": {"kind": figures.match.kind, "reason": figures.match.reason, **plain(figures.match)},
                    "modelled": plain(report.modelled),
                    "bounds": plain(report.bounds),
                    "dangers": report.dangers,
                    "remarks": report.remarks,
                    "policies": plain(report.policies.states),
                },
            }
        )
    )


def _resource(one: Any) -> dict[str, Any]:
    """The fields of a recorded resource that docs/preview.md lists; its values keep their marks of secrets."""
    names = ("urn", "type", "name", "parent", "provider", "dependencies", "protect", "inputs")
    return {name: getattr(one, name) for name in names}
