"""One console for everything that is printed for people: its width, and whether it may use colour."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask: a CI log or a file."""


def stdout_console() -> Console:
    """A console on stdout. Colour needs a terminal and no NO_COLOR; width is the terminal's, COLUMNS or 100."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return Console(width=width, highlight=False, emoji=False, markup=False, soft_wrap=False)
