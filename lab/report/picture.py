"""A drill's timeline: one row per subject, grouped in lanes; counts where there would be too many rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from fleet.report.charts import Axis
from fleet.report.rows import Area, Bar, Dot, Row, Rows
from fleet.report.svg import LegendEntry, round_ticks
from lab.report.counts import Counts, counts_of
from lab.report.wording import format_simulated
from lab.results.timeline import Lane, Moment, Mood

LANES: Final[Mapping[Lane, str]] = {
    "operator": "Operator",
    "apply": "pulumi up",
    "capacity": "Capacity",
    "node": "Nodes",
    "pod": "Pods",
    "volume": "Disks",
    "gateway": "Gateway",
    "traffic": "Requests",
    "alert": "Alerts",
}
"""Titles, in drawing order: cause before effect."""

MAX_ROWS: Final = 18
"""Rows of a lane; with more subjects it shows counts, or the most important rows."""
NOTABLE_ROWS: Final = 8
"""Rows of failed nodes and pods below their lane's counts."""
ALIKE_FROM: Final = 3
"""From this many on, subjects with the same single state share a row."""
BRIEF_SHARE: Final = 0.01
"""A period shorter than this share of the drill is drawn as a dot."""
SHORT_MINUTES: Final = 3
LABEL_CHARACTERS: Final = 40
COUNTS_PX: Final = 96.0
LEGEND: Final = tuple(
    LegendEntry(words=words, style=f"mood-{mood}", mark="band")
    for mood, words in (("good", "good"), ("waiting", "waiting"), ("bad", "failed"), ("plain", "other"))
)


def timeline_of(name: str, moments: Sequence[Moment]) -> Rows | None:
    """The timeline of a drill's moments, from its start; None if they span no time."""
    if not moments:
        return None
    began = began_at(moments)
    ended = max(_end(moment) for moment in moments)
    if ended - began < 1:
        return None
    lanes = {lane: [_since(moment, began) for moment in moments if moment.lane == lane] for lane in LANES}
    rows = tuple(row for lane, found in lanes.items() if found for row in _lane(lane, found, ended - began))
    return Rows(
        id=f"timeline-{name}",
        title="What happened",
        description="The table below has the same data.",
        axis=_axis((ended - began) / 60),
        rows=rows,
        legend=LEGEND,
    )


def _axis(minutes: float) -> Axis:
    """In minutes; a short drill's ticks are seconds."""
    if minutes >= SHORT_MINUTES:
        return Axis(low=0, high=minutes, title="simulated minutes")
    ticks = tuple((at, f"{at * 60:g}") for at in (second / 60 for second in round_ticks(0, minutes * 60, 10)))
    return Axis(low=0, high=minutes, title="simulated seconds", ticks=ticks)


def began_at(moments: Sequence[Moment]) -> float:
    """The simulated second at which the timeline starts."""
    return min(moment.at_seconds for moment in moments)


def _since(moment: Moment, began: float) -> Moment:
    until = None if moment.until_seconds is None else _end(moment) - began
    return replace(moment, at_seconds=moment.at_seconds - began, until_seconds=until)


def _end(moment: Moment) -> float:
    return moment.at_seconds if moment.until_seconds is None else max(moment.at_seconds, moment.until_seconds)


def _lane(lane: Lane, moments: Sequence[Moment], span: float) -> list[Row]:
    """The lane's rows; the first has the lane's title."""
    subjects: dict[str, list[Moment]] = {}
    for one in sorted(moments, key=lambda moment: (moment.at_seconds, moment.subject)):
        subjects.setdefault(one.subject, []).append(one)
    number = len(subjects)
    rows, single = _alike(subjects, span)
    brief = _brief(single, span)
    single = {subject: found for subject, found in single.items() if subject not in brief}
    rest = []
    if len(rows) + len(single) > MAX_ROWS:
        kept = _telling(single, lane)
        others = [one for subject, found in single.items() if subject not in kept for one in found]
        single = {subject: found for subject, found in single.items() if subject in kept}
        if lane in ("node", "pod"):
            rows = [_counted(number, counts_of(moments, 0, span))]
        else:
            rest.append(_row(f"{len({other.subject for other in others})} others", [_ended(other) for other in others]))
    if brief:
        label = f"{len(brief)} others, brief"
        rest.append(_row(label, [_ended(one) for found in brief.values() for one in found], with_words=False))
    rows += [*(_row(subject, found) for subject, found in single.items()), *rest]
    return [replace(rows[0], heading=LANES[lane]), *rows[1:]]


def _alike(subjects: Mapping[str, list[Moment]], span: float) -> tuple[list[Row], dict[str, list[Moment]]]:
    """Shared rows for subjects with one state throughout, and the other subjects."""
    steady: dict[tuple[str, Mood], list[str]] = {}
    for subject, found in subjects.items():
        if len(found) == 1 and found[0].at_seconds <= BRIEF_SHARE * span and _end(found[0]) >= (1 - BRIEF_SHARE) * span:
            steady.setdefault((found[0].text, found[0].mood), []).append(subject)
    rows, gone = [], set()
    for (text, mood), names in steady.items():
        if len(names) >= ALIKE_FROM:
            gone |= set(names)
            words = f"{len(names)} {text} throughout"
            bar = Bar(low=0, high=span / 60, style=f"mood-{mood}", words=words, title=", ".join(sorted(names)))
            rows.append(Row(label=f"{len(names)} others" if len(names) < len(subjects) else "all", bars=(bar,)))
    return rows, {subject: found for subject, found in subjects.items() if subject not in gone}


def _brief(subjects: Mapping[str, list[Moment]], span: float) -> dict[str, list[Moment]]:
    """Subjects with one short, unproblematic period."""
    found = {
        subject: moments
        for subject, moments in subjects.items()
        if len(moments) == 1
        and moments[0].until_seconds is not None
        and moments[0].mood not in ("bad", "waiting")
        and _end(moments[0]) - moments[0].at_seconds < BRIEF_SHARE * span
    }
    return found if len(found) >= ALIKE_FROM else {}


def _telling(subjects: Mapping[str, list[Moment]], lane: Lane) -> frozenset[str]:
    """Subjects that keep a row: failed ones, then the longest; of nodes and pods only failed ones."""
    limit = NOTABLE_ROWS if lane in ("node", "pod") else MAX_ROWS - 1

    def weight(subject: str) -> tuple[bool, float]:
        found = subjects[subject]
        return any(one.mood == "bad" for one in found), sum(_end(one) - one.at_seconds for one in found)

    ranked = sorted(subjects, key=weight, reverse=True)
    if lane in ("node", "pod"):
        ranked = [subject for subject in ranked if weight(subject)[0]]
    return frozenset(ranked[:limit])


def _ended(moment: Moment) -> Moment:
    """The end of a period as a moment, for a shared row."""
    return Moment(
        lane=moment.lane,
        subject=moment.subject,
        text=f"{moment.subject}: {moment.text}",
        at_seconds=_end(moment),
        mood=moment.mood,
    )


def _row(label: str, moments: Sequence[Moment], *, with_words: bool = True) -> Row:
    bars, dots = [], []
    for moment in moments:
        begins, ends = moment.at_seconds / 60, _end(moment) / 60
        style, words = f"mood-{moment.mood}", moment.text if with_words else ""
        if moment.until_seconds is None:
            title = f"{moment.text}: {format_simulated(moment.at_seconds)}"
            dots.append(Dot(at=begins, mark="dot", style=style, words=words, title=title))
        else:
            title = f"{moment.text}: {format_simulated(moment.at_seconds)} to {format_simulated(_end(moment))}"
            bars.append(Bar(low=begins, high=ends, style=style, words=words, title=title))
    # A row breaks its label at blanks, so long names get some.
    label = " ".join(textwrap.wrap(label.replace("/", " ", 1), LABEL_CHARACTERS, break_long_words=False))
    return Row(label=label, bars=tuple(bars), dots=tuple(dots))


def _counted(number: int, counts: Counts) -> Row:
    worst = f", later at least {counts.least_ready:,}" if counts.least_ready < counts.most_ready else ""
    areas = tuple(
        Area(points=area.outline, style=f"mood-{area.mood}", title=f"{area.meaning}: at most {area.most:,}")
        for area in counts.areas
    )
    return Row(label=f"{number:,} in total, at most {counts.most_ready:,} Ready{worst}", areas=areas, height=COUNTS_PX)


# The same as a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    time: str
    lane: str
    subject: str
    text: str
    mood: Mood


MAX_LINES: Final = 250


def table_lines(moments: Sequence[Moment]) -> tuple[tuple[Line, ...], int]:
    """Moments in order, and the number of lines left out. Simultaneous moments of a lane with the same text share a line;
    failures are left out last.
    """
    if not moments:
        return (), 0
    began = began_at(moments)

    def slot(moment: Moment) -> int:
        """Six seconds are a tenth of a minute, the finest time shown from two minutes on."""
        return round((moment.at_seconds - began) / 6)

    ordered = sorted(moments, key=lambda moment: (slot(moment), moment.lane, moment.text, moment.subject))
    lines: list[Line] = []
    for _, group in groupby(ordered, key=lambda one: (slot(one), one.lane, one.text)):
        found = list(group)
        first = found[0]
        subject = first.subject if len(found) == 1 else f"{len({one.subject for one in found})} subjects"
        time = format_simulated(min(one.at_seconds for one in found) - began)
        if first.until_seconds is not None:
            time += f" to {format_simulated(max(map(_end, found)) - began)}"
        lines.append(Line(time=time, lane=LANES[first.lane], subject=subject, text=first.text, mood=first.mood))
    if len(lines) <= MAX_LINES:
        return tuple(lines), 0
    bad = [index for index, line in enumerate(lines) if line.mood == "bad"]
    other = [index for index, line in enumerate(lines) if line.mood != "bad"]
    kept = sorted([*bad, *other][:MAX_LINES])
    return tuple(lines[index] for index in kept), len(lines) - len(kept)
