"""A measurement against its baseline: one sentence for the verdict, and a table of every quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleet.bench.certificate.baseline import incomparable
from fleet.bench.measurement import Comparison, Estimate
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import NOTHING, format_change, format_number, format_percent

_NAMED: Final = 3
"""Quantities in the sentence; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Line below the verdict: a certified measurement may be worse than its baseline."""

    held: bool
    words: str


def outcome(found: Sequence[Comparison]) -> Outcome | None:
    """Whether the measurement is as good as its baseline; None without one."""
    if not found:
        return None
    baseline = found[0].baseline
    worse = [one for one in found if one.verdict == "regressed"]
    if worse:
        named = "; ".join(f"{one.quantity} {_change(one)}" for one in worse[:_NAMED])
        more = f" and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
        return Outcome(held=False, words=f"Worse than baseline {baseline} beyond noise: {named}{more}.")
    if incomparable(found):
        return Outcome(held=False, words=f"Not comparable with baseline {baseline}: {found[0].why.rstrip('.')}.")
    some = "comparable " if any(one.verdict == "not comparable" for one in found) else ""
    return Outcome(held=True, words=f"Nothing {some}is worse than baseline {baseline} beyond noise.")


def comparisons(found: Sequence[Comparison]) -> Table:
    """Every quantity before and now. A reason that holds for several stands beside the first of them."""
    first = {one.why: index for index, one in reversed([*enumerate(found)])}
    return Table(
        id="baseline-table",
        caption="Against the baseline",
        columns=(*texts("quantity"), *numbers("before", "now", "change", "noise"), *texts("verdict")),
        rows=tuple(
            (
                Cell(one.quantity),
                Cell(_mean(one.before)),
                Cell(_mean(one.after)),
                Cell(_change(one)),
                Cell(NOTHING if one.verdict == "not comparable" else f"± {format_percent(one.noise_share)}"),
                Cell(
                    one.verdict,
                    note=one.why if first[one.why] == index else "",
                ),
            )
            for index, one in enumerate(found)
        ),
    )


def _mean(one: Estimate) -> str:
    return format_number(one.mean) if one.repeats else NOTHING


def _change(one: Comparison) -> str:
    return NOTHING if one.verdict == "not comparable" else format_change(one.change_share)
