"""The report on one or several stacks, as an outline that every medium renders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.preview.report.change_sections import change_sections, effects, number_section
from fleet.preview.report.judges import changes_of_all
from fleet.preview.report.policies import changed_judges, judge_section, policy_section, verdict_of, without_told
from fleet.preview.report.several_stacks import Refusal, by_weight, is_quiet, refusals_of, reports_of, stack_of
from fleet.preview.report.stack_list import StackLine, line_of
from fleet.preview.report.stack_sections import (
    about_section,
    cost_section,
    finding_sections,
    next_section,
    resource_section,
    stack_section,
    throughput_section,
    what_it_is,
)
from fleet.preview.report.wording import format_nature
from fleet.report.outline import Box, Code, Element, Folding, Outline, Prose, Section, Tone, some
from fleet.report.table import Cell, Table, texts

if TYPE_CHECKING:
    from fleet.preview.report.model import Report
    from fleet.preview.report.several_stacks import Outcome

_MOST_DANGERS: Final = 30
_MOST_LINES: Final = 40
"""Of the message of a refused stack."""
_LONGEST_LINE: Final = 500
_ROOM_FOR_MESSAGES: Final = 30_000
"""Characters that the messages of all refused stacks share, about half of a comment."""


def preview_outline(*outcomes: Outcome, with_data: bool = False) -> Outline:
    """The whole report. `with_data`: with what the JSON document says, which takes as long as all the rest."""
    outline = _of_one(outcomes[0]) if len(outcomes) == 1 else _of_several(by_weight(outcomes))
    return replace(outline, data=_data(outcomes)) if with_data else outline


def _data(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One stack's document; of several: `stacks`, a list of such documents, and `refused`."""
    from fleet.preview.report.json_document import as_document

    if len(outcomes) == 1 and not isinstance(outcomes[0], Refusal):
        return as_document(outcomes[0])
    return {
        "stacks": [
            {**as_document(one), "findings": [finding.as_json() for finding in _of_one(one).findings]}
            for one in reports_of(outcomes)
        ],
        "refused": [{"stack": one.stack, "message": one.message} for one in refusals_of(outcomes)],
    }


def _of_one(outcome: Outcome) -> Outline:
    elsewhere = f"See `fleet preview --stack {stack_of(outcome)}`, or `--format html` and `json`."
    if isinstance(outcome, Refusal):
        verdict = "cannot be previewed"
        body = (Code(tuple(_message(outcome, _ROOM_FOR_MESSAGES))),)
        return Outline(title=outcome.stack, verdict=verdict, tone="bad", body=body, elsewhere=elsewhere)
    changes = outcome.comparison
    verdict, tone = _verdict(outcome)
    return Outline(
        title=f"{outcome.recording.project} / {outcome.recording.stack}",
        kind=f"offline preview against {changes.against}" if changes is not None else "offline preview",
        verdict=verdict,
        tone=tone,
        head=tuple(_head(outcome)),
        body=tuple(_body(outcome, alone=True)),
        footer=(f"Offline preview. {format_nature([outcome])}",),
        elsewhere=elsewhere,
    )


def _verdict(report: Report) -> tuple[str, Tone]:
    """Blocked or not, by what; then how much a first preview creates."""
    verdict, is_blocked = verdict_of(report)
    changes = report.comparison
    dangers = len(report.dangers) + (len(changes.dangers) if changes is not None else 0)
    parts = [verdict, *([plural(dangers, "danger")] if dangers else [])]
    if changes is None:
        parts.append(f"{len(report.changes)} to create")
    elif not changes.pending:
        parts.append("no changes")
    tone: Tone = "bad" if is_blocked else "warn" if dangers else "good" if verdict == "not blocked" else "plain"
    return ", ".join(parts), tone


def _head(report: Report, *, dangers_are_told: bool = False) -> Iterator[Element]:
    if report.comparison is not None:
        yield from effects(report.comparison, dangers_are_told=dangers_are_told)
        return
    yield from what_it_is(report)


def _body(report: Report, *, alone: bool) -> Iterator[Section]:
    """The sections in order: who judges and their verdict stand above the resources.

    Throughput and bill are folded where they are beside the point: below a change, and for one of several stacks.
    """
    changes, policies = report.comparison, without_told(report.policies, (*report.findings, *report.notices))
    folding: Folding = "open" if alone and changes is None else "page"
    figures = (replace(one, folding=folding) for one in (throughput_section(report), cost_section(report)))
    if changes is None:
        yield policy_section(policies)
        yield from finding_sections(report)
        yield from figures
        yield resource_section(report)
    else:
        yield from some(judge_section(report.policies))  # type: ignore[misc]
        yield policy_section(policies)
        yield from some(number_section(report, changes))  # type: ignore[misc]
        yield from change_sections(report, changes)
        yield stack_section(report)
        yield from finding_sections(report)
        yield from figures
    yield about_section(report)
    yield next_section(report)


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
        head=some(
            _dangers(reports),
            changed_judges(changes_of_all(reports)),
            Section(title="Stacks", body=(_table(outcomes),), only=("markdown", "html"), id="list-of-stacks"),
            Prose(compared) if against else None,
        ),
        body=(
            *(_stack(outcome, number, len(refusals)) for number, outcome in enumerate(outcomes, start=1)),
            # A terminal shows its end.
            Section(title="Stacks", body=(_list(outcomes),), only=("text",)),
        ),
        footer=(f"Offline preview. {format_nature(reports)}",),
        elsewhere="See `fleet preview --stack STACK`, or `--format html` and `json`.",
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
        warned = [stack_of(report) for report in reports if line_of(report).warns]
        return (
            (f"warnings in {plural(len(warned), 'stack')} ({', '.join(warned)})", "warn")
            if warned
            else ("no problems", "good")
        )
    changing = [stack_of(report) for report in reports if report.comparison is not None and report.comparison.pending]
    if not changing:
        return "no stack changes", "good"
    return f"{len(changing)} of {plural(len(compared), 'stack')} changed: {', '.join(changing)}", "plain"


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
    """A row for each stack, where there is room for five columns."""
    lines = [line_of(outcome) for outcome in outcomes]
    return Table(
        id="stacks",
        caption="Verdict, changes, price and throughput of every stack",
        columns=texts("stack", "verdict", "what changes", "price", "throughput"),
        rows=tuple(
            (
                Cell(line.stack, link=f"stack-{number}", style="changed" if _is_changed(outcome) else ""),
                Cell(f"{_mark(line)} {line.verdict}"),
                Cell(_change(outcome, line)),
                Cell(line.price),
                Cell(line.rate),
            )
            for number, (outcome, line) in enumerate(zip(outcomes, lines, strict=True), start=1)
        ),
    )


def _list(outcomes: Sequence[Outcome]) -> Table:
    """The same for a terminal: what changes, price and rate stand below the verdict."""
    lines = [line_of(outcome) for outcome in outcomes]
    return Table(
        id="list-of-stacks",
        caption="Verdict, changes, price and throughput of every stack",
        columns=texts("stack", "verdict"),
        rows=tuple(
            (
                Cell(line.stack, note=_change(outcome, line)),
                Cell(f"{_mark(line)} {line.verdict}", note=" · ".join(filter(None, (line.price, line.rate)))),
            )
            for outcome, line in zip(outcomes, lines, strict=True)
        ),
    )


def _mark(line: StackLine) -> str:
    return "✗" if line.stops else "!" if line.warns else "✓"


def _change(outcome: Outcome, line: StackLine) -> str:
    return "no changes" if is_quiet(outcome) else "; ".join(line.change)


def _is_changed(outcome: Outcome) -> bool:
    return not isinstance(outcome, Refusal) and outcome.comparison is not None and bool(outcome.comparison.changed)


def _stack(outcome: Outcome, number: int, refused: int) -> Section:
    """One of several stacks; those without changes are folded, and to a terminal only listed."""
    id_ = f"stack-{number}"
    if isinstance(outcome, Refusal):
        message = Code(tuple(_message(outcome, _ROOM_FOR_MESSAGES // refused)))
        return Section(title=outcome.stack, remark="cannot be previewed", body=(message,), id=id_, tone="bad")
    verdict, tone = _verdict(outcome)
    is_folded = is_quiet(outcome)
    return Section(
        title=stack_of(outcome),
        remark=verdict,
        body=(*_head(outcome, dangers_are_told=True), *_body(outcome, alone=False)),
        id=id_,
        tone="warn" if tone in ("warn", "bad") else "plain",
        folding="page" if is_folded else "open",
        rank=2 if is_folded else 0,
        only=("markdown", "html") if is_folded else ("text", "markdown", "html"),
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
