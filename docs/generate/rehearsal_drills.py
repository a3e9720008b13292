"""Writes the table of drills in docs/rehearsal.md from fleet/rehearse/drills/catalogue.py and the stack files.

`python -m docs.generate.rehearsal_drills` writes it; with `--check` it exits with 1 if the committed one is not current.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from fleet.preview.offline import open_stack
from fleet.rehearse.drills.catalogue import DRILLS
from fleet.rehearse.drills.drill import Drill
from settings.names import stack_names
from settings.stack import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rehearsal.md"
MOST = 3
"""Drills that repeat a reason in the table."""
BEGIN, END = "<!-- drills: python -m docs.generate.rehearsal_drills -->\n", "<!-- end of drills -->"


def main() -> int:
    """Write or check the table."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_table(page)
    if "--check" in sys.argv[1:]:
        if page != current:
            sys.stderr.write(
                f"{PAGE.relative_to(ROOT)} is not current; run: python -m docs.generate.rehearsal_drills\n"
            )
        return int(page != current)
    PAGE.write_text(current, encoding="utf-8")
    return 0


def with_table(page: str) -> str:
    """The page with the table as the catalogue has it now. Raises ValueError for a page without the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no place for the table: the page lacks {BEGIN.strip()} or {END}")
    return f"{before}{BEGIN}{table()}{END}{after}"


def table() -> str:
    """Every drill in the order of the catalogue, with the stacks that skip it and why; a reason of many drills stands below, once."""
    stacks = {name: open_stack(ROOT, name).settings for name in stack_names(ROOT)}
    skipped = [(drill, _reasons(drill, stacks)) for drill in DRILLS]
    often = Counter(reason for _, reasons in skipped for reason in reasons)
    notes = {reason: number for number, reason in enumerate((one for one in often if often[one] > MOST), 1)}
    rows = [
        f"| `{drill.name}` | {drill.proves} | {_cell(reasons, notes)} | {_pace(drill)} |" for drill, reasons in skipped
    ]
    below = [f"({number}) {reason}  " for reason, number in notes.items()]
    return "\n".join(["| drill | proves that | skipped on | |", "| --- | --- | --- | --- |", *rows, "", *below, ""])


def _reasons(drill: Drill, stacks: dict[str, Settings]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name, settings in stacks.items():
        if reason := drill.skip(settings):
            reasons.setdefault(reason, []).append(f"`{name}`")
    return reasons


def _cell(reasons: dict[str, list[str]], notes: dict[str, int]) -> str:
    return "; ".join(
        f"{', '.join(names)} ({notes[reason]})" if reason in notes else f"{', '.join(names)}: {reason}"
        for reason, names in reasons.items()
    )


def _pace(drill: Drill) -> str:
    return "" if drill.fast else "slow"


if __name__ == "__main__":
    sys.exit(main())
