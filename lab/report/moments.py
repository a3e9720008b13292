"""What happened in a drill, as lines of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

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
}
MAX_LINES: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    time: str
    lane: str
    subject: str
    text: str
    mood: Mood


def table_lines(moments: Sequence[Moment]) -> tuple[tuple[Line, ...], int]:
    """Moments in order, and the number of lines left out. Simultaneous moments of a lane with the same text share a line;
    failures are left out last.
    """
    if not moments:
        return (), 0
    began = min(moment.at_seconds for moment in moments)

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


def _end(moment: Moment) -> float:
    return moment.at_seconds if moment.until_seconds is None else max(moment.at_seconds, moment.until_seconds)
