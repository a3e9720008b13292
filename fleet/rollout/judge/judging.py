"""Computes a verdict from two folders as an outline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from facts.finding import Finding, Severity
from fleet.bench.errors import BenchmarkError
from fleet.bench.recomputed import Results, located, part_of, require_same, results_of, stated_in
from fleet.report.outline import Findings, Items, Next, Outline, Tone, some
from fleet.rollout.judge import figures, output_check
from fleet.rollout.judge.side import Side, read_side, require_in_turn, require_one_load
from fleet.rollout.judge.verdict import Limits, Part, Reason, Verdict, as_text, decide, declaration_of

_SEVERITIES: Final[dict[str, Severity]] = {
    "reject": "error",
    "undecided": "unknown",
    "promote": "passed",
    "note": "note",
}
"""Of a line of the stored verdict, which is a file format of its own. Decisive ones first."""
_ONE_POD: Final = (
    "One pod of each was measured, so a difference between their nodes counts as the release's. The chance of error applies to runs on "
    "these two nodes only. If your nodes differ, allow for it: --limit throughput=5."
)
_TONES: Final[dict[str, Tone]] = {"reject": "bad", "undecided": "warn", "promote": "good"}


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
        certificates={
            side.name: tuple(certificate.headline for certificate in side.certificates) for side in (old, canary)
        },
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


def outline(verdict: Verdict, then: Next | None = None) -> Outline:
    """The verdict, then its reasons, decisive ones first. `then`: what to type or to open."""
    reasons = sorted(verdict.reasons, key=lambda one: list(_SEVERITIES).index(one.verdict))
    sides = [
        f"{name}: {asked[0].served_model}, {asked[0].image}, profile {asked[0].profile}: {', '.join(one.name for one in asked)}"
        for name, asked in (("old", verdict.old), ("canary", verdict.canary))
    ]
    return Outline(
        title=f"Canary of {verdict.canary[0].stack}",
        kind="verdict",
        verdict=verdict.headline,
        tone=_TONES[verdict.verdict],
        head=(Items(tuple(sides), "soft"),),
        body=some(Findings(tuple(map(_finding, reasons)), explains_passed=True), then),
        footer=(_ONE_POD,),
    )


def _finding(reason: Reason) -> Finding:
    return Finding(
        id=reason.id,
        subject=reason.id,
        severity=_SEVERITIES[reason.verdict],
        found=reason.found,
        allowed=reason.limit,
        why=reason.evidence,
    )
