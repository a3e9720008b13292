"""Chart of the time to first response: one bar per start-up step, critical path marked."""

from __future__ import annotations

from facts.time_to_serve import Step, TimeToServe
from fleet.report.charts import Axis
from fleet.report.rows import Bar, Dot, Row, Rows
from fleet.report.svg import LegendEntry
from fleet.report.words import format_duration

_LEGEND = (
    LegendEntry(words="● critical path", style="step critical", mark="band"),
    LegendEntry(words="in parallel", style="step", mark="band"),
    LegendEntry(words="low to high", style="whisker", mark="line"),
)


def chart(way: TimeToServe) -> Rows:
    """Steps in order of their start, then the total, in minutes."""
    end = max(way.high_seconds, *(step.begins_seconds + step.high_seconds for step in way.steps))
    decide = ", ".join(step.title for step in way.critical_path)
    return Rows(
        id="way",
        title="Time to first response",
        description=(
            f"{format_duration(way.likely_seconds)} likely, {format_duration(way.low_seconds)} to "
            f"{format_duration(way.high_seconds)}. Critical path: {decide}."
        ),
        axis=Axis(low=0, high=end / 60, title="minutes"),
        rows=(*(_row(step) for step in way.steps), _whole(way)),
        legend=_LEGEND,
    )


def _row(step: Step) -> Row:
    begins, ends = step.begins_seconds / 60, step.ends_seconds / 60
    return Row(
        label=f"{'● ' if step.critical else ''}{step.title}",
        style="chosen" if step.critical else "",
        words=_times(step),
        bars=(
            Bar(
                low=begins,
                high=ends,
                style="step critical" if step.critical else "step",
                title=f"{step.title}: minute {begins:.1f} to {ends:.1f}, likely",
            ),
        ),
        whisker=(begins + step.low_seconds / 60, begins + step.high_seconds / 60),
    )


def _whole(way: TimeToServe) -> Row:
    times = _times(way)
    return Row(
        label="first response",
        style="chosen",
        words=times,
        words_style="chosen",
        dots=(Dot(at=way.likely_seconds / 60, mark="diamond", style="plan", title=f"first response: {times}"),),
        whisker=(way.low_seconds / 60, way.high_seconds / 60),
    )


def _times(of: Step | TimeToServe) -> str:
    likely, low, high = (format_duration(one) for one in (of.likely_seconds, of.low_seconds, of.high_seconds))
    return likely if low == high else f"{likely} ({low} to {high})"
