"""Computes a verdict from two folders and formats it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from fleet.bench.errors import BenchmarkError
from fleet.bench.recomputed import Results, located, part_of, require_same, results_of, stated_in
from fleet.report.terminal import Page, Paper
from fleet.rollout.judge import figures, output_check
from fleet.rollout.judge.side import Side, read_side, require_in_turn, require_one_load
from fleet.rollout.judge.verdict import Limits, Part, Verdict, as_text, decide, declaration_of

_MARKS: Final = {"reject": "✗ ", "undecided": "? ", "promote": "✓ ", "note": "· "}
_ONE_POD: Final = (
    "One pod of each was measured, so a difference between their nodes counts as the release's. The chance of error applies to runs on "
    "these two nodes only. If your nodes differ, allow for it: --limit throughput=5."
)
_STYLES: Final = {"reject": "bold red", "undecided": "yellow", "promote": "green", "note": "dim"}


def judge(old: Side, canary: Side, limits: Limits) -> Verdict:
    """All lines of the verdict."""
    other = old.asked[0].shape.model != canary.asked[0].shape.model
    reasons = (
        *figures.reasons(old, canary, limits),
        *output_check.reasons(old.answers, canary.answers, limits, other_model=other),
    )
    decision, headline = decide(reasons, limits)
    return Verdict(
        verdict=decision,
        headline=headline,
        declaration=declaration_of(canary.asked[0].model_dump()),
        limits=limits,
        reasons=reasons,
        certificates={side.name: tuple(one.headline for one in side.certificates) for side in (old, canary)},
        old=old.asked,
        canary=canary.asked,
    )


def judge_folders(old: Path, canary: Path, limits: Limits, file: Path) -> Verdict:
    """The same from two result folders, for a file that names them. Raises BenchmarkError, also for different workloads."""
    folders = {"old": old, "canary": canary}
    results = {name: results_of(folder, file) for name, folder in folders.items() if folder.is_dir()}
    first, second = (read_side(*each) for each in folders.items())
    require_one_load("the two sides hold measurements", first.asked[0], second.asked[0])
    require_in_turn((first, second))
    return judge(first, second, limits).model_copy(update={"results": results})


def read(file: Path) -> Verdict:
    """A stored verdict, judged again from its results. Raises BenchmarkError where they are missing or give another one."""
    again = "judge again: fleet rollout judge --stack STACK, or with --results OLD_DIR CANARY_DIR"
    try:
        stated = stated_in(file, "a verdict", 2, again)
    except OSError as error:
        raise BenchmarkError(f"{file}: the verdict cannot be read: {error.strerror or error}; {again}") from None
    results = part_of(file, stated, "results", _BothResults, again)
    old, canary = (located(file, getattr(results, side), f"the {side} results", again) for side in ("old", "canary"))
    found = judge_folders(old, canary, part_of(file, stated, "limits", Limits, again), file)
    require_same(file, stated, json.loads(as_text(found)), again)
    return found


class _BothResults(Part):
    old: Results
    canary: Results


def print_text(paper: Paper, verdict: Verdict) -> None:
    """The verdict, then one line per reason, decisive ones first."""
    page = Page(paper)
    style = _STYLES[verdict.verdict]
    page.prose(verdict.headline, indent=0, mark=_MARKS[verdict.verdict], style=style, mark_style=style)
    for name, asked in (("old", verdict.old), ("canary", verdict.canary)):
        what = f"{asked[0].served_model}, {asked[0].image}, profile {asked[0].profile}"
        page.prose(f"{name}: {what}: {', '.join(one.name for one in asked)}", style="dim")
    page.blank()
    for one in sorted(verdict.reasons, key=lambda one: list(_MARKS).index(one.verdict)):
        said = f"{one.id}: {one.found}; allowed: {one.limit}"
        page.prose(said, mark=_MARKS[one.verdict], mark_style=_STYLES[one.verdict])
        page.prose(one.evidence, indent=4, style="dim")
    page.blank()
    page.prose(_ONE_POD, style="dim")
    page.print()
