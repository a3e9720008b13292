"""Chart of the price per million tokens: the fleet with each kind of capacity, and APIs. Prices span a factor of 100: log axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fleet.report.charts import Axis
from fleet.report.rows import Dot, Row, Rows
from fleet.report.svg import LegendEntry, Mark
from fleet.report.words import format_usd

_SPREAD = 1.25
"""Margin at both ends of the axis, as a factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One fleet or API and its price."""

    name: str
    kind: Literal["fleet", "api"]
    usd_per_million: float | None
    """None: the price is unknown."""
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    """Whether the fleet's bill has items without a price."""
    chosen: bool = False
    """Whether this is the plan itself."""

    @property
    def words(self) -> str:
        """Label: the price, or "price unknown"."""
        if self.usd_per_million is None:
            return "price unknown"
        least = "at least " if self.at_least else ""
        return f"{least}{format_usd(self.usd_per_million)}"


def chart(rows: tuple[PriceRow, ...]) -> Rows:
    """One row per fleet or API, in the given order."""
    known = [value for row in rows for value in (row.usd_per_million, row.low, row.high) if value]
    return Rows(
        id="prices",
        title="Price per million tokens",
        description="; ".join(f"{row.name}: {row.words}" for row in rows) + ".",
        axis=Axis(
            low=min(known) / _SPREAD,
            high=max(known) * _SPREAD,
            is_log=True,
            title="USD per million tokens (logarithmic)",
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
        yield LegendEntry(words="same goal, other capacity", style="fleet", mark="dot")
    if any(row.low is not None for row in rows):
        yield LegendEntry(words="full load to planned load", style="whisker", mark="line")
    if any(row.kind == "api" for row in rows):
        yield LegendEntry(words="API, published list price", style="api", mark="diamond")
