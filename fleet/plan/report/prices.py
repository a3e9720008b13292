"""The picture of what a million tokens cost: this fleet by how its capacity is bought, beside what APIs ask.

A dot on a logarithmic axis, not a bar: prices lie a hundredfold apart, and the length of a bar would say nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fleet.report.charts import Axis
from fleet.report.rows import Dot, Row, Rows
from fleet.report.svg import LegendEntry, Mark
from fleet.report.words import format_usd

_SPREAD = 1.25
"""Room on both sides of the axis, as a factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One way to buy tokens."""

    name: str
    kind: Literal["fleet", "api"]
    usd_per_million: float | None
    """None: the price is unknown."""
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    """Whether the fleet's bill has items without a price."""
    chosen: bool = False
    """Whether it is the plan's own."""

    @property
    def words(self) -> str:
        """The price, or that there is none."""
        if self.usd_per_million is None:
            return "price unknown"
        least = "at least " if self.at_least else ""
        return f"{least}{format_usd(self.usd_per_million)}"


def chart(rows: tuple[PriceRow, ...]) -> Rows:
    """A row for each way, in the order given."""
    known = [value for row in rows for value in (row.usd_per_million, row.low, row.high) if value]
    return Rows(
        id="prices",
        title="Dollars for a million tokens",
        description="; ".join(f"{row.name}: {row.words}" for row in rows) + ".",
        axis=Axis(
            low=min(known) / _SPREAD,
            high=max(known) * _SPREAD,
            is_log=True,
            title="dollars for a million tokens (logarithmic axis)",
            words=lambda value: format_usd(value) if value < 1 else f"${value:,.0f}",
        )
        if known
        else None,
        rows=tuple(_row(row) for row in rows),
        legend=tuple(_legend(rows)),
    )


def _row(row: PriceRow) -> Row:
    style = "chosen" if row.chosen else ""
    if row.usd_per_million is None:
        return Row(label=row.name, style=style, words=row.words, words_style="unknown")
    mark: Mark = "diamond" if row.kind == "api" else "star" if row.chosen else "dot"
    dot = Dot(
        at=row.usd_per_million,
        mark=mark,
        style="api" if row.kind == "api" else "plan" if row.chosen else "fleet",
        title=f"{row.name}: {row.words}",
    )
    spread = None if row.low is None or row.high is None else (row.low, row.high)
    return Row(label=row.name, style=style, words=row.words, words_style=style, dots=(dot,), whisker=spread)


def _legend(rows: tuple[PriceRow, ...]) -> Iterator[LegendEntry]:
    if any(row.chosen and row.usd_per_million is not None for row in rows):
        yield LegendEntry(words="this plan", style="plan", mark="star")
    if any(row.kind == "fleet" and not row.chosen and row.usd_per_million is not None for row in rows):
        yield LegendEntry(words="the same fleet, bought otherwise", style="fleet", mark="dot")
    if any(row.low is not None for row in rows):
        yield LegendEntry(words="from full load to the planned load", style="whisker", mark="line")
    if any(row.kind == "api" for row in rows):
        yield LegendEntry(words="API, published list price", style="api", mark="diamond")
