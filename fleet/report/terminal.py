"""What a terminal is: its width, and whether it shows styles."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from fleet.report.printable import printable

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask: a CI log or a file."""
MIN_WIDTH = 60
"""Columns below which lines are left to the terminal to break."""

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style in rich's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What a report is printed on."""

    stream: TextIO
    width: int
    styled: bool
    """Whether it is a terminal that shows styles."""

    @property
    def knows_unicode(self) -> bool:
        """Whether more than ASCII can be written; a stream that does not say so takes anything."""
        encoding = self.stream.encoding
        return encoding is None or encoding.lower().startswith("utf")


def stdout_paper() -> Paper:
    """Width from COLUMNS, the terminal, else 100. Styles for terminals and on FORCE_COLOR; NO_COLOR is rich's to obey."""
    return _paper(sys.stdout)


def stderr_paper() -> Paper:
    """The same of stderr, for progress beside the output of other programs."""
    return _paper(sys.stderr)


def _paper(stream: TextIO) -> Paper:
    styled = bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
    return Paper(stream=stream, width=width, styled=styled)


def cleaned(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts of a line without what a terminal would obey."""
    return tuple(printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts)
