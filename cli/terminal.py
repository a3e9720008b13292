"""What stdout is: how wide, and whether it is a terminal that shows styles."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preview.page import Paper

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask: a CI log or a file."""


def stdout_paper() -> Paper:
    """Width from COLUMNS, the terminal, else 100. Styles for terminals and on FORCE_COLOR; NO_COLOR is rich's to obey."""
    from preview.page import Paper

    terminal = sys.stdout.isatty()
    styled = bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
    return Paper(stream=sys.stdout, width=width, styled=styled)
