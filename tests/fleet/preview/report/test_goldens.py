"""The wording of a preview, held once for each report; other tests assert ids, values and structure."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fleet.preview.report.model import Report
from fleet.preview.stack_preview import preview_stack
from tests.fleet.cli.command import ROOT
from tests.fleet.preview.sample_changes import JUDGE_CHANGED, REFUSAL, compared_report
from tests.support.formats import markdown_of, text_of

Golden = Callable[[str, str], None]


@cache
def spot() -> Report:
    return preview_stack(ROOT, "spot", ask_policies=False)


def test_the_preview_of_a_stack(golden: Golden) -> None:
    golden("preview/spot.txt", text_of(spot(), width=80))
    golden("preview/spot.md", markdown_of(spot()))


def test_a_comparison(golden: Golden) -> None:
    report = compared_report(policies=JUDGE_CHANGED)
    golden("preview/comparison.txt", text_of(report, width=80))
    golden("preview/comparison.md", markdown_of(report))


def test_the_table_of_several_stacks(golden: Golden) -> None:
    table, *_ = markdown_of(compared_report(policies=JUDGE_CHANGED), spot(), REFUSAL).partition("\nCompared with")
    golden("preview/stacks.md", table)
