"""The wording of a preview, held once for each report; other tests assert ids, values and structure."""

from __future__ import annotations

from collections.abc import Callable

from fleet.preview.stack_preview import preview_stack
from tests.fleet.cli.command import ROOT
from tests.fleet.preview.sample_changes import REFUSAL, compared_report
from tests.support.formats import markdown_of

Golden = Callable[[str, str], None]


def test_the_previews(golden: Golden) -> None:
    spot = preview_stack(ROOT, "spot", ask_policies=False)
    golden("preview/spot.md", markdown_of(spot))
    golden("preview/comparison.md", markdown_of(compared_report()))
    table, *_ = markdown_of(compared_report(), spot, REFUSAL).partition("\nCompared with")
    golden("preview/stacks.md", table)
