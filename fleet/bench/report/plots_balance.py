"""Balance of clients and engines: one bar each, with the median."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median
from typing import Final

from facts.texts import plural
from fleet.bench.measurement import ClientResult, EngineResult, Run, ServerMetrics
from fleet.report.charts import Axis, Bar, Level, Panel, Plot, axis_from_zero
from fleet.report.svg import LegendEntry
from fleet.report.words import format_milliseconds, format_number, format_percent

ODD_SHARE: Final = 0.1
"""A bar that is this share or more off the median is drawn as odd. Assumed: round robin leaves engines within a few per cent. Not off
the mean: one that starves moves the mean of eight by an eighth, and all the others would be odd."""
_GROUP_GAP: Final = 1.0
"""Between the bars of two servers, in bars."""
_CLIENT = LegendEntry(words="a client", style="bar", mark="band")
_RANK = LegendEntry(words="a rank, mean over the window", style="bar", mark="band")
_ODD = LegendEntry(words="10 % or more off the median", style="bar odd", mark="band")
_MEDIAN = LegendEntry(words="median of all", style="level", mark="line")
_PEAK = LegendEntry(words="peak", style="peak", mark="line")


def clients(run: Run) -> Plot:
    """Each client's rate, CPU and event-loop lag; without witnesses the rate alone."""
    members = run.clients
    places = [(number_ + 0.1, number_ + 0.9) for number_ in range(len(members))]
    x = Axis(
        low=0,
        high=len(members),
        title="client",
        ticks=tuple((n + 0.5, f"{member.client}") for n, member in enumerate(members)),
    )
    panels = [
        _panel(
            "Total tokens a second",
            x,
            places,
            [
                (
                    member.total_tokens_per_s,
                    None,
                    f"client {member.client}: {format_number(member.total_tokens_per_s)} total tok/s",
                )
                for member in members
            ],
        )
    ]
    if any(member.cpu_share_peak is not None for member in members):
        panels.append(
            _panel(
                "CPU, share of one core",
                x,
                places,
                [(member.cpu_share_mean or 0.0, member.cpu_share_peak, _cpu(member)) for member in members],
                words=lambda value: f"{100 * value:.0f} %",
                whole=1.0,
                mark_odd=False,
            )
        )
    if any(member.loop_lag_p99_ms is not None for member in members):
        panels.append(
            _panel(
                "Event-loop lag p99, ms",
                x,
                places,
                [(member.loop_lag_p99_ms or 0.0, None, _lag(member)) for member in members],
                mark_odd=False,
            )
        )
    rates = [member.total_tokens_per_s for member in members]
    return Plot(
        id="clients",
        title="Balance of the clients",
        description=(
            f"{plural(len(members), 'client')}, {format_number(min(rates))} to {format_number(max(rates))} "
            "total tokens a second each."
        ),
        panels=tuple(panels),
        legend=(_CLIENT, _ODD, _MEDIAN, *((_PEAK,) if len(panels) > 1 else ())),
        columns=3,
    )


def _cpu(one: ClientResult) -> str:
    if one.cpu_share_mean is None or one.cpu_share_peak is None:
        return f"client {one.client}: no witness"
    return f"client {one.client}: mean {format_percent(one.cpu_share_mean, 0)}, peak {format_percent(one.cpu_share_peak, 0)} of a core"


def _lag(one: ClientResult) -> str:
    return f"client {one.client}: " + (
        "no witness" if one.loop_lag_p99_ms is None else format_milliseconds(one.loop_lag_p99_ms)
    )


def engines(server: ServerMetrics, window: str = "steady window") -> Plot:
    """Each data-parallel rank's tokens, running and waiting sequences and KV cache over that window, server by server."""
    members = sorted_engines(server)
    places, ticks, across = _grouped(members)
    servers = len({member.server for member in members})
    x = Axis(low=0, high=across, title="server, a bar for each rank" if servers > 1 else "rank", ticks=tuple(ticks))
    kinds: tuple[
        tuple[str, Callable[[EngineResult], tuple[float, float | None]], Callable[[float], str], bool, float], ...
    ] = (
        (f"Output tokens in the {window}", lambda one: (one.generation_tokens, None), format_number, True, 0.0),
        ("Sequences running", lambda one: (one.running_mean, one.running_peak), format_number, True, 0.0),
        ("Sequences waiting", lambda one: (one.waiting_mean, one.waiting_peak), format_number, False, 0.0),
        ("KV cache in use", lambda one: (one.kv_mean, one.kv_peak), lambda value: format_percent(value, 0), True, 1.0),
    )
    tokens = [member.generation_tokens for member in members]
    return Plot(
        id="engines",
        title="Balance of the engines",
        description=(
            f"{plural(len(members), 'engine')} of {plural(server.servers, 'server')}: {format_number(min(tokens))} to "
            f"{format_number(max(tokens))} output tokens each in the {window}."
        ),
        panels=tuple(
            _panel(
                title,
                x,
                places,
                [(*of(member), f"{name_of(member)}: {_with_peak(of(member), words)}") for member in members],
                words=None if words is format_number else words,
                whole=whole,
                mark_odd=mark_odd,
            )
            for title, of, words, mark_odd, whole in kinds
        ),
        legend=(_RANK, _ODD, _MEDIAN, _PEAK),
        columns=2,
    )


def sorted_engines(server: ServerMetrics) -> list[EngineResult]:
    """By server, then by rank as a number."""
    return sorted(server.engines, key=lambda one: (_address(one.server), one.engine.zfill(8)))


def _address(server: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part) if part.isdecimal() else 0, part) for part in server.replace(":", ".").split("."))


def name_of(one: EngineResult) -> str:
    """An engine as text."""
    return f"{one.server}, rank {one.engine}"


def _with_peak(values: tuple[float, float | None], words: Callable[[float], str]) -> str:
    mean, peak = values
    return words(mean) if peak is None else f"mean {words(mean)}, peak {words(peak)}"


def _grouped(members: Sequence[EngineResult]) -> tuple[list[tuple[float, float]], list[tuple[float, str]], float]:
    places: list[tuple[float, float]] = []
    ticks: list[tuple[float, str]] = []
    at = 0.0
    groups = [list(group) for _, group in groupby(members, key=lambda one: one.server)]
    for number_, group in enumerate(groups, start=1):
        for rank, one in enumerate(group):
            places.append((at + rank + 0.08, at + rank + 0.92))
            if len(groups) == 1:
                ticks.append((at + rank + 0.5, one.engine[:6]))
        if len(groups) > 1:
            ticks.append((at + len(group) / 2, str(number_)))
        at += len(group) + (_GROUP_GAP if number_ < len(groups) else 0)
    return places, ticks, at


def _panel(
    title: str,
    x: Axis,
    places: Sequence[tuple[float, float]],
    values: Sequence[tuple[float, float | None, str]],
    *,
    words: Callable[[float], str] | None = None,
    whole: float = 0.0,
    mark_odd: bool = True,
) -> Panel:
    """`whole`: what the axis holds at least, where a share of something is drawn: 4 % of a core must not look like all of it."""
    middle = median(value for value, _, _ in values)
    ends = [whole, *(end for value, peak, _ in values for end in (value, *(() if peak is None else (peak,))))]
    y = axis_from_zero(ends) if words is None else axis_from_zero(ends, words=words)
    return Panel(
        title=title,
        x=x,
        y=y,
        bars=tuple(
            Bar(
                low=low,
                high=high,
                value=value,
                peak=peak,
                style="bar odd"
                if mark_odd and value != middle and abs(value - middle) >= ODD_SHARE * middle
                else "bar",
                title=title_,
            )
            for (low, high), (value, peak, title_) in zip(places, values, strict=True)
        ),
        levels=(Level(value=middle, style="level"),),
        height=210,
    )
