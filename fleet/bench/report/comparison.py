"""Two measurements beside each other, as an outline."""

from __future__ import annotations

from pydantic import TypeAdapter

from fleet.bench.compare import Compared
from fleet.bench.measurement import Estimate
from fleet.report.outline import Box, Items, Outline, Section, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_change, format_number, format_percent


def comparison(compared: Compared, before: str, after: str) -> Outline:
    """The verdict, what was deployed differently, and every quantity. `before`, `after`: names of the two."""
    worse = [change for change in compared.changes if change.verdict == "worse"]
    verdict = f"{len(worse)} of {len(compared.changes)} quantities are worse beyond noise"
    if not compared.changes:
        verdict = "not comparable"
    elif not worse:
        verdict = "nothing is worse beyond noise"
    return Outline(
        title=f"{after} against {before}",
        verdict=f"{'✓' if compared.holds else '✗'} {verdict}",
        tone="good" if compared.holds else "bad",
        head=some(Box(body=(Items(compared.obstacles),), title="Not comparable") if compared.obstacles else None),
        body=some(
            Section(title="Deployed differently", body=(Items(compared.differences),))
            if compared.differences
            else None,
            Section(title="Change", body=(_table(compared),)) if compared.changes else None,
        ),
        data=TypeAdapter(Compared).dump_python(compared, mode="json"),
    )


def _table(compared: Compared) -> Table:
    return Table(
        id="changes-table",
        caption="Every quantity before and after",
        columns=(*numbers("in flight"), *texts("quantity"), *numbers("before", "after", "change", "noise"), *texts("")),
        rows=tuple(
            (
                Cell(f"{change.connections:,}"),
                Cell(change.quantity),
                Cell(_mean(change.before)),
                Cell(_mean(change.after)),
                Cell(format_change(change.change_share)),
                Cell(f"± {format_percent(change.noise_share)}"),
                Cell(change.verdict),
            )
            for change in compared.changes
        ),
    )


def _mean(one: Estimate) -> str:
    return f"{format_number(one.mean)} ({one.repeats})"
