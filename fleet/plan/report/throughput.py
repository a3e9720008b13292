"""Chart of throughput by node count: model with interval, published points, the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from facts.machines import Machine
from facts.texts import plural
from fleet.plan.model.estimates import Estimate
from fleet.report.charts import Axis, Band, Dot, Level, Line, Panel, Plot, axis_around, axis_from_zero, axis_of_counts
from fleet.report.svg import LegendEntry, Mark
from fleet.report.words import format_number, format_short


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One published point."""

    nodes: int
    total_tokens_per_s: float
    series: str
    """Key of SERIES."""
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One run of the article."""

    title: str
    mark: Mark
    style: str


SERIES = {
    "cluster_ip": Series(title="published, first run", mark="ring", style="first-run"),
    "cluster_ip_rerun": Series(title="published, second run", mark="square", style="second-run"),
    "gateway": Series(title="published, behind the gateway", mark="diamond", style="gateway-run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Data of the chart."""

    curve: tuple[tuple[int, Estimate], ...]
    """Total tokens a second at full load, by nodes, ascending."""
    readings: tuple[Reading, ...]
    machine: Machine
    nodes: int
    """The plan's."""
    at_full_load: Estimate
    planned: float
    """Total tokens/s at the planned load."""

    @property
    def most_nodes(self) -> int:
        """Largest node count on the curve."""
        return self.curve[-1][0]

    @property
    def is_below_full_load(self) -> bool:
        """Whether the planned load differs visibly from full load."""
        return self.planned < 0.995 * self.at_full_load.value


def plot(found: Throughput) -> Plot:
    """Two panels: the whole fleet, and one node of it."""
    x = axis_of_counts(
        found.most_nodes, f"{found.machine.type} nodes, {found.machine.gpus} {found.machine.gpu.name} each"
    )
    fleet = [estimate.high for _, estimate in found.curve] + [reading.total_tokens_per_s for reading in found.readings]
    single = [end / nodes for nodes, estimate in found.curve for end in (estimate.low, estimate.high)]
    single += [reading.total_tokens_per_s / reading.nodes for reading in found.readings]
    single.append(found.planned / found.nodes)
    return Plot(
        id="throughput",
        title="Throughput by node count",
        description=_format_description(found),
        panels=(
            _panel(
                "Whole fleet: total tokens/s",
                found,
                x,
                axis_from_zero((*fleet, found.planned)),
                lambda _, rate: rate,
                levels=(Level(value=found.planned, style="planned-line"),),
            ),
            _panel("Per node: total tokens/s", found, x, axis_around(single), lambda nodes, rate: rate / nodes),
        ),
        legend=tuple(_legend(found)),
    )


def _panel(
    title: str,
    found: Throughput,
    x: Axis,
    y: Axis,
    of: Callable[[int, float], float],
    *,
    levels: tuple[Level, ...] = (),
) -> Panel:
    return Panel(
        title=title,
        x=x,
        y=y,
        levels=levels,
        bands=(
            Band(
                style="band",
                lows=tuple((nodes, of(nodes, one.low)) for nodes, one in found.curve),
                highs=tuple((nodes, of(nodes, one.high)) for nodes, one in found.curve),
            ),
        ),
        lines=(Line(style="model", points=tuple((nodes, of(nodes, one.value)) for nodes, one in found.curve)),),
        dots=tuple(_dots(found, of)),
        height=280,
    )


def _dots(found: Throughput, of: Callable[[int, float], float]) -> Iterator[Dot]:
    for reading in found.readings:
        series = SERIES[reading.series]
        yield Dot(
            x=reading.nodes,
            y=of(reading.nodes, reading.total_tokens_per_s),
            mark=series.mark,
            style=series.style,
            title=(
                f"{plural(reading.nodes, 'node')}: {format_number(reading.total_tokens_per_s)} tok/s, {series.title}, {reading.label}"
            ),
        )
    plan = f"this plan, {plural(found.nodes, 'node')}"
    full = found.at_full_load.value
    if found.is_below_full_load:
        title = f"{plan}, at its planned load: {format_number(found.planned)} tok/s"
        yield Dot(x=found.nodes, y=of(found.nodes, found.planned), mark="dot", style="planned", title=title)
    title = f"{plan}, at full load: {format_number(full)} tok/s"
    yield Dot(x=found.nodes, y=of(found.nodes, full), mark="star", style="plan", title=title)


def _legend(found: Throughput) -> Iterator[LegendEntry]:
    yield LegendEntry(words="this plan at full load", style="plan", mark="star")
    if found.is_below_full_load:
        yield LegendEntry(words="this plan at the planned load", style="planned", mark="dot")
    yield LegendEntry(words=f"planned load, {format_short(found.planned)} tok/s", style="planned-line", mark="line")
    yield LegendEntry(words="model at full load", style="model", mark="line")
    yield LegendEntry(words="model's interval", style="band", mark="band")
    drawn = {reading.series for reading in found.readings}
    for key, series in SERIES.items():
        if key in drawn:
            yield LegendEntry(words=series.title, style=series.style, mark=series.mark)


def _format_description(found: Throughput) -> str:
    full = found.at_full_load
    return (
        f"{plural(found.nodes, 'node')}: {format_number(full.value)} total tokens/s at full load, {format_number(full.low)} to "
        f"{format_number(full.high)}; planned: {format_number(found.planned)}. {_published(found.readings)}."
    )


def _published(readings: Sequence[Reading]) -> str:
    if not readings:
        return "Nothing is published for this machine and model"
    return "Published: " + "; ".join(
        f"{SERIES[reading.series].title.removeprefix('published, ')}, {plural(reading.nodes, 'node')}, "
        f"{format_number(reading.total_tokens_per_s)}"
        for reading in readings
    )
