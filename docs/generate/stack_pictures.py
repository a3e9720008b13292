"""Draws stacks for the README and the guides as docs/img/stack-STACK.svg, from their recordings.

`python docs/generate/stack_pictures.py` writes the pictures; with `--check` it exits with 1 if a committed one is out of date.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
STACKS: Final = ("smoke", "spot", "gateway", "prod")
DAY: Final = "1787184000"
"""2026-08-20: the checks of a stack file read the date."""


def main() -> int:
    """Write or check the pictures."""
    stale = []
    for path, drawn in pictures():
        if "--check" not in sys.argv[1:]:
            path.write_text(drawn, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != drawn:
            stale.append(path)
    for path in stale:
        sys.stderr.write(f"{path.relative_to(ROOT)} is not current; run: make picture\n")
    return 1 if stale else 0


def pictures() -> Iterator[tuple[Path, str]]:
    """Each picture as an SVG document, with its path."""
    sys.path.insert(0, str(ROOT))
    os.environ["SOURCE_DATE_EPOCH"] = DAY
    from fleet.preview.offline import open_stack, record_stack
    from fleet.preview.report.stack_drawing import stack_drawing
    from fleet.preview.report.stack_picture import stack_picture
    from fleet.report.svg_file import svg_document
    from settings.derived.figures import figures

    for stack in STACKS:
        opened = open_stack(ROOT, stack)
        picture = stack_picture(record_stack(opened, "preview"), figures(opened.settings).bill)
        caption = f"Drawn by `fleet preview --stack {stack}` from what the program registers; list prices."
        yield ROOT / "docs" / "img" / f"stack-{stack}.svg", svg_document(stack_drawing(picture, "wide"), caption)


if __name__ == "__main__":
    sys.exit(main())
