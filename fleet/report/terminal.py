"""A page of text for a terminal: laid out here, line by line. rich colors it, where there is a terminal to color."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from fleet.report.printable import beneath, printable

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask: a CI log or a file."""
MIN_WIDTH = 60
"""Columns below which lines are left to the terminal to break."""
_LOOK_ALIKES = str.maketrans(
    {
        "├": "|",
        "│": "|",
        "└": "`",
        "─": "-",
        "·": "-",
        "×": "x",
        "→": ">",
        "✗": "x",
        "✓": "+",
        "…": ".",
        "–": "-",
        "±": "~",
    }
)
"""One character each, so that the layout holds."""

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style in rich's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What a page is printed on."""

    stream: TextIO
    width: int
    styled: bool
    """Whether it is a terminal that shows styles."""

    @property
    def knows_unicode(self) -> bool:
        """Whether more than ASCII can be written; a stream that does not say so takes anything."""
        encoding = self.stream.encoding
        return encoding is None or encoding.lower().startswith("utf")

    def writable(self, text: str) -> str:
        """The text as the stream can write it: look-alikes, and a question mark for what has none, where only ASCII can be.

        A minus sign is a hyphen on every terminal: what is copied from there is searched for and computed with.
        """
        text = text.replace("\N{MINUS SIGN}", "-")
        if self.knows_unicode:
            return text
        return text.translate(_LOOK_ALIKES).encode("ascii", "replace").decode()


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


class Page:
    """Lines as wide as the paper, from 60 columns up, collected and printed at once."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self.width = max(MIN_WIDTH, paper.width)
        self._lines: list[tuple[Part, ...]] = []

    def print(self) -> None:
        """Write the page. Where only ASCII can be written, look-alikes are."""
        if self._paper.styled:
            self._print_styled()
        else:
            lines = ("".join(part if isinstance(part, str) else part[0] for part in line) for line in self._lines)
            self._paper.stream.write(self._paper.writable("\n".join(lines)) + "\n")

    def _print_styled(self) -> None:
        # Imported here: a pipe or a file, such as a CI log, is spared its 30 ms.
        from rich.console import Console
        from rich.text import Text

        console = Console(file=beneath(self._paper.stream), width=self.width, force_terminal=True, highlight=False)
        text = Text("\n").join(Text.assemble(*line) for line in self._lines)
        text.plain = self._paper.writable(text.plain)
        console.print(text, soft_wrap=True)

    def line(self, *parts: Part) -> None:
        """One line as it is, but for what a terminal would obey."""
        self._lines.append(cleaned(parts))

    def blank(self) -> None:
        """An empty line between sections."""
        self._lines.append(())

    def rule(self) -> None:
        """A line across the page, between the reports of two stacks."""
        self.blank()
        self.line(("─" * self.width, "dim"))
        self.blank()

    def title(self, left: str, right: str = "", style: str = "bold") -> None:
        """A section's heading, with a remark at the right margin where there is room for it."""
        self.blank()
        self.heading(left, right, style)

    def heading(self, left: str, right: str = "", style: str = "bold") -> None:
        """The page's first line."""
        gap = self.width - len(left) - len(right)
        if right and gap >= 2:
            self.line((left, style), " " * gap, (right, "dim"))
        else:
            self.line((left, style))
            if right:
                self.prose(right, style="dim")

    def pointer(self, target: str, remark: str = "", *, indent: int = 0) -> None:
        """What to type or to open next, on one line however long it is: it is there to be copied."""
        self.line(" " * indent, ("→ ", "dim"), (target, "bold"), (remark, "dim"))

    def prose(self, text: str, *, indent: int = 2, mark: str = "", style: str = "", mark_style: str = "") -> None:
        """Wrapped text; `mark` stands before the first line, the others align below its text."""
        hang = indent + len(mark)
        # A URL, a path or a digest is not broken: it may stick out, but it can be copied.
        wrapped = textwrap.wrap(text, self.width - hang, break_long_words=False, break_on_hyphens=False) or [""]
        wrapped = [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
        self.line(" " * indent, (mark, mark_style), (wrapped[0], style))
        for line in wrapped[1:]:
            self.line(" " * hang, (line, style))
