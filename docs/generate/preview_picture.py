"""Draws what `fleet preview --stack spot` prints as docs/img/preview-spot.svg, for the README.

`python docs/generate/preview_picture.py` writes the picture; with `--check` it exits with 1 if the committed one is not current.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DAY = "1787184000"
"""2026-08-20: prices age, and a picture has no finding about that."""
PICTURE = ROOT / "docs" / "img" / "preview-spot.svg"
STACK = "spot"
WIDTH = 104
TREE_LINES = 18
"""Lines of the tree that are shown; the picture says how many more there are."""


def main() -> int:
    """Write or check the picture."""
    drawn = picture()
    if "--check" in sys.argv[1:]:
        current = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == drawn
        if not current:
            sys.stderr.write(f"{PICTURE.relative_to(ROOT)} is not current; run: make picture\n")
        return 0 if current else 1
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


def picture() -> str:
    """The preview as SVG: the real output, with the middle of the tree and the end left out."""
    from rich.console import Console
    from rich.text import Text

    shown = _cut(_preview())
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="standard")
    console.print(Text.assemble(("$ ", "dim"), (f"fleet preview --stack {STACK}", "bold")))
    console.print()
    console.print(Text.from_ansi("\n".join(shown)), soft_wrap=True)
    drawn = console.export_svg(title=f"fleet preview --stack {STACK}")
    # The reader's own monospace font: a picture should fetch nothing.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def _preview() -> list[str]:
    """What a terminal of this width would be given, line by line."""
    sys.path.insert(0, str(ROOT))
    # Colors of a plain terminal.
    os.environ.pop("NO_COLOR", None)
    os.environ.update(TERM="xterm", COLORTERM="", SOURCE_DATE_EPOCH=DAY)
    from fleet.preview.report.text import print_text
    from fleet.preview.stack_preview import preview_stack
    from fleet.report.terminal import Paper

    out = io.StringIO()
    report = preview_stack(ROOT, STACK, ask_policies=False)
    print_text(Paper(stream=out, width=WIDTH, styled=True), report)
    return out.getvalue().splitlines()


def _cut(lines: list[str]) -> list[str]:
    tree = next(index for index, line in enumerate(lines) if "vllm-fleet-spot" in line)
    end = next(index for index, line in enumerate(lines) if "to create" in line)
    last = next(index for index, line in enumerate(lines) if "after destroy" in line)
    hidden = end - 1 - tree - TREE_LINES
    more = f"\x1b[2m   ⋮  {hidden} more lines\x1b[0m"
    return [*lines[: tree + TREE_LINES], more, "", *lines[end : last + 1]]


if __name__ == "__main__":
    sys.exit(main())
