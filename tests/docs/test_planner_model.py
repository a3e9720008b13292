"""The page about the planner's model has the calibration's constants and the errors of today's rows."""

from __future__ import annotations

import re

from fleet.plan.model.calibration import contents
from fleet.plan.model.roofline import DENSE, EXPERTS_OR_LINEAR
from tests.fleet.cli.command import ROOT
from tests.fleet.plan.model.published import FITTED, left_out, rows

PAGE = (ROOT / "docs" / "planner-model.md").read_text(encoding="utf-8")


def test_the_constants_are_the_calibrations() -> None:
    written = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert written == {name: f"{contents()['fitted'][name]['value']:g}" for name in FITTED}
    for one in (DENSE, EXPERTS_OR_LINEAR):
        assert f"| {one.arithmetic_share:g} | {one.layer_us:g} us |" in PAGE


def test_the_errors_are_those_of_the_published_rows() -> None:
    def worst(metric: str) -> float:
        return max(abs(row.error_percent) for row in rows("predicted") if row.metric == metric)

    row = next(line for line in PAGE.splitlines() if "rows that were not fitted" in line)
    found = (worst("total_tokens_per_s"), worst("tpot_ms"), worst("ttft_ms"))
    assert [float(one) for one in re.findall(r"([\d.]+) %", row)] == [
        round(found[0], 1),
        round(found[1], 1),
        round(found[2]),
    ]
    assert f"| {max(abs(one) for one in left_out().values()):.1f} % |" in PAGE
