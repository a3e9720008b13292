"""A drill's picture as plain data: lanes of rows with bars and marks, or counts where rows would be too many.

Positions are percent of the picture's width, so that one picture fits a phone and a wide screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from rehearsal.report.counts import Counts, counts_of
from rehearsal.timeline import Lane, Moment, Mood

LANES: Final[Mapping[Lane, str]] = {
    "operator": "Operator",
    "apply": "pulumi up",
    "capacity": "Google's stock of machines",
    "node": "Machines",
    "pod": "Pods",
    "volume": "Disks",
    "gateway": "Gateway",
    "traffic": "Requests",
}
"""Titles, in the order in which lanes are drawn: who acts first."""

MAX_ROWS: Final = 18
"""Rows of a lane; with more subjects it becomes counts, or keeps the rows that tell most."""
NOTABLE_ROWS: Final = 8
"""Rows of single machines and pods that went wrong, below their lane's counts."""
ALIKE_FROM: Final = 3
"""Rows that say the same all along share one from this many on."""
BRIEF_PERCENT: Final = 1.0
"""A stretch shorter than this share of the width is a hair."""
MAX_TICKS: Final = 9
TICK_MINUTES: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240, 480)

WIDE_PIXELS: Final = 720
"""Width of the drawing on a wide screen; decides which words find room in it."""
NARROW_PIXELS: Final = 320
"""The same on a phone."""
CHARACTER_PIXELS: Final = 6.2
"""Assumed: a character of the drawing's 11-pixel type, on average."""

Room = Literal["any", "wide", "none"]
"""Where the words have room: on any screen, on a wide one, nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch."""

    x: float
    width: float
    mood: Mood
    text: str
    room: Room
    beside: bool
    """Whether the words stand to the right of it, where they do not fit inside."""
    title: str
    """The words and the times, for a pointer that rests on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment."""

    x: float
    mood: Mood
    text: str
    room: Room
    before: bool
    """Whether the words stand to the left of it."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One subject, or several that say the same."""

    label: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLane:
    """One lane of the picture."""

    title: str
    subjects: int
    rows: tuple[Row, ...]
    counts: Counts | None
    """How many were in which state over time; None where each has a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A line of the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drill, drawn."""

    lanes: tuple[DrawnLane, ...]
    ticks: tuple[Tick, ...]


def picture_of(moments: Sequence[Moment]) -> Picture | None:
    """The picture of a drill's moments; None where nothing happened."""
    if not moments:
        return None
    scale = _Scale(moments)
    by_lane = {lane: [one for one in moments if one.lane == lane] for lane in LANES}
    return Picture(
        lanes=tuple(_lane(lane, found, scale) for lane, found in by_lane.items() if found),
        ticks=tuple(scale.ticks()),
    )


class _Scale:
    """From simulated seconds to percent of the width; minutes count from the drill's beginning."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        times = [at for one in moments for at in (one.at_seconds, _end(one))]
        self.began = min(times)
        self.span = max(max(times) - self.began, 1.0)

    def x(self, at_seconds: float) -> float:
        return round(100 * (at_seconds - self.began) / self.span, 3)

    def minutes(self, at_seconds: float) -> str:
        return f"{(at_seconds - self.began) / 60:.1f}"

    def ticks(self) -> Iterator[Tick]:
        minutes = self.span / 60
        step = next((one for one in TICK_MINUTES if minutes / one <= MAX_TICKS), TICK_MINUTES[-1])
        number = 0
        while number * step <= minutes * 0.985:
            yield Tick(x=round(100 * number * step / minutes, 3), label=f"{number * step:g}")
            number += 1


def _end(moment: Moment) -> float:
    return moment.at_seconds if moment.until_seconds is None else max(moment.at_seconds, moment.until_seconds)


def _lane(lane: Lane, moments: Sequence[Moment], scale: _Scale) -> DrawnLane:
    subjects: dict[str, list[Moment]] = {}
    for one in sorted(moments, key=lambda one: (one.at_seconds, one.subject)):
        subjects.setdefault(one.subject, []).append(one)
    number = len(subjects)
    alike, single = _alike(subjects, scale)
    brief = _brief(single, scale)
    single = {subject: found for subject, found in single.items() if subject not in brief}
    counts = None
    rest = (
        [
            _row(
                f"{len(brief)} brief ones",
                [_ended(one) for found in brief.values() for one in found],
                scale,
                with_words=False,
            )
        ]
        if brief
        else []
    )
    if len(alike) + len(single) > MAX_ROWS:
        kept = _telling(single, lane)
        others = [one for subject, found in single.items() if subject not in kept for one in found]
        single = {subject: found for subject, found in single.items() if subject in kept}
        if lane in ("node", "pod"):
            counts, alike = counts_of(moments, scale.began, scale.began + scale.span), []
        else:
            rest.insert(
                0, _row(f"{len({one.subject for one in others})} others", [_ended(one) for one in others], scale)
            )
    rows = [_row(subject, found, scale) for subject, found in single.items()]
    return DrawnLane(title=LANES[lane], subjects=number, rows=(*alike, *rows, *rest), counts=counts)


def _alike(subjects: Mapping[str, list[Moment]], scale: _Scale) -> tuple[list[Row], dict[str, list[Moment]]]:
    """Rows for subjects that stayed the same all along, and the other subjects."""
    steady: dict[tuple[str, Mood], list[str]] = {}
    for subject, found in subjects.items():
        if len(found) == 1 and scale.x(found[0].at_seconds) <= 1 and scale.x(_end(found[0])) >= 99:
            steady.setdefault((found[0].text, found[0].mood), []).append(subject)
    rows, gone = [], set()
    for (text, mood), names in steady.items():
        if len(names) >= ALIKE_FROM:
            gone |= set(names)
            words = f"{text}, all {len(names)} of them, all along"
            bar = Bar(x=0, width=100, mood=mood, text=words, room="any", beside=False, title=", ".join(sorted(names)))
            rows.append(
                Row(label=f"{len(names)} others" if len(names) < len(subjects) else "all", bars=(bar,), marks=())
            )
    return rows, {subject: found for subject, found in subjects.items() if subject not in gone}


def _brief(subjects: Mapping[str, list[Moment]], scale: _Scale) -> dict[str, list[Moment]]:
    """Subjects of one short stretch that ended well: each would be a row with a hair in it."""
    found = {
        subject: moments
        for subject, moments in subjects.items()
        if len(moments) == 1
        and moments[0].until_seconds is not None
        and moments[0].mood not in ("bad", "waiting")
        and scale.x(_end(moments[0])) - scale.x(moments[0].at_seconds) < BRIEF_PERCENT
    }
    return found if len(found) >= ALIKE_FROM else {}


def _telling(subjects: Mapping[str, list[Moment]], lane: Lane) -> frozenset[str]:
    """The subjects that keep a row: first what went wrong, then what took longest. Of machines and pods only the former."""
    limit = NOTABLE_ROWS if lane in ("node", "pod") else MAX_ROWS - 1

    def weight(subject: str) -> tuple[bool, float]:
        found = subjects[subject]
        return any(one.mood == "bad" for one in found), sum(_end(one) - one.at_seconds for one in found)

    ranked = sorted(subjects, key=weight, reverse=True)
    if lane in ("node", "pod"):
        ranked = [subject for subject in ranked if weight(subject)[0]]
    return frozenset(ranked[:limit])


def _ended(moment: Moment) -> Moment:
    """The end of a stretch as a moment of its own, for a row that many share."""
    return Moment(
        lane=moment.lane,
        subject=moment.subject,
        text=f"{moment.subject}: {moment.text}",
        at_seconds=_end(moment),
        mood=moment.mood,
    )


def _row(label: str, moments: Sequence[Moment], scale: _Scale, *, with_words: bool = True) -> Row:
    stretches = [one for one in moments if one.until_seconds is not None]
    points = [one for one in moments if one.until_seconds is None]
    starts = sorted(scale.x(one.at_seconds) for one in moments)
    return Row(
        label=label,
        bars=tuple(_bar(one, starts, scale) for one in stretches),
        # Words beside a mark would lie on a bar, so they have room only where there are no bars.
        marks=tuple(_marks(points, scale, with_words=with_words and not stretches)),
    )


def _bar(moment: Moment, starts: Sequence[float], scale: _Scale) -> Bar:
    x, end = scale.x(moment.at_seconds), scale.x(_end(moment))
    width = max(0.2, end - x)
    room = _room(moment.text, width)
    free = next((start for start in starts if start >= end - 0.01), 100.0) - end
    beside = (
        room == "none" and _room(moment.text, free) != "none" and all(start <= x or start >= end for start in starts)
    )
    return Bar(
        x=min(x, 99.8),
        width=width,
        mood=moment.mood,
        text=moment.text,
        room=_room(moment.text, free) if beside else room,
        beside=beside,
        title=f"{moment.text}: minute {scale.minutes(moment.at_seconds)} to {scale.minutes(_end(moment))}",
    )


def _marks(points: Sequence[Moment], scale: _Scale, *, with_words: bool) -> Iterator[Mark]:
    places = [scale.x(one.at_seconds) for one in points]
    for index, (one, x) in enumerate(zip(points, places, strict=True)):
        after = (places[index + 1] if index + 1 < len(points) else 100.0) - x
        ahead = x - (places[index - 1] if index else 0.0)
        room_after, room_ahead = _room(one.text, after), _room(one.text, ahead) if not index else "none"
        before = room_after == "none" and room_ahead != "none"
        yield Mark(
            x=x,
            mood=one.mood,
            text=one.text,
            room=(room_ahead if before else room_after) if with_words else "none",
            before=before,
            title=f"{one.text}: minute {scale.minutes(one.at_seconds)}",
        )


def _room(text: str, percent: float) -> Room:
    pixels = len(text) * CHARACTER_PIXELS + 14
    if pixels <= percent / 100 * NARROW_PIXELS:
        return "any"
    return "wide" if pixels <= percent / 100 * WIDE_PIXELS else "none"


# The same in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of what happened, in words."""

    minutes: str
    lane: str
    subject: str
    text: str
    mood: Mood


MAX_LINES: Final = 250


def in_words(moments: Sequence[Moment]) -> tuple[tuple[Line, ...], int]:
    """What happened, in order, and how many lines were left out. Things of one lane that happened in the same tenth of a minute
    with the same words share a line; where lines are too many, what went wrong is kept first.
    """
    if not moments:
        return (), 0
    scale = _Scale(moments)
    ordered = sorted(moments, key=lambda one: (scale.minutes(one.at_seconds).rjust(9), one.lane, one.text, one.subject))
    lines: list[Line] = []
    for _, group in groupby(ordered, key=lambda one: (scale.minutes(one.at_seconds), one.lane, one.text)):
        found = list(group)
        first = found[0]
        subject = first.subject if len(found) == 1 else f"{len({one.subject for one in found})} of them"
        until = (
            ""
            if first.until_seconds is None
            else f" to {max(scale.minutes(_end(one)).rjust(9) for one in found).strip()}"
        )
        minutes = f"{scale.minutes(first.at_seconds)}{until}"
        lines.append(Line(minutes=minutes, lane=LANES[first.lane], subject=subject, text=first.text, mood=first.mood))
    if len(lines) <= MAX_LINES:
        return tuple(lines), 0
    bad = [index for index, line in enumerate(lines) if line.mood == "bad"]
    other = [index for index, line in enumerate(lines) if line.mood != "bad"]
    kept = sorted([*bad, *other][:MAX_LINES])
    return tuple(lines[index] for index in kept), len(lines) - len(kept)
