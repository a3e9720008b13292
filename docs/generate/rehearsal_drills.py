"""Writes the table of drills in docs/rehearsal.md from lab/drills/catalogue.py.

`python -m docs.generate.rehearsal_drills` writes it; with `--check` it exits with 1 if the committed table is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab.drills.catalogue import DRILLS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rehearsal.md"
BEGIN, END = "<!-- drills: python -m docs.generate.rehearsal_drills -->\n", "<!-- end of drills -->"


def main() -> int:
    """Write or check the table."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_table(page)
    if "--check" in sys.argv[1:]:
        if page != current:
            sys.stderr.write(
                f"{PAGE.relative_to(ROOT)} is out of date; run: python -m docs.generate.rehearsal_drills\n"
            )
        return int(page != current)
    PAGE.write_text(current, encoding="utf-8")
    return 0


def with_table(page: str) -> str:
    """The page with a current table. Raises ValueError for a page without the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no place for the table: the page misses {BEGIN.strip()} or {END}")
    return f"{before}{BEGIN}{table()}{END}{after}"


def table() -> str:
    """Drills in the catalogue's order."""
    rows = [f"| `{drill.name}` | {drill.proves} |" for drill in DRILLS]
    return "\n".join(["| drill | proves that |", "| --- | --- |", *rows, ""])


if __name__ == "__main__":
    sys.exit(main())
