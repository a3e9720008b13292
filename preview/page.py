"""A page of text for a terminal: laid out here, line by line, and coloured by rich."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.text import Text

MIN_WIDTH = 60
"""Columns below which lines are left to the terminal to break."""
_LOOK_ALIKES = str.maketrans(
    {"├": "|", "│": "|", "└": "`", "─": "-", "·": "-", "×": "x", "→": ">", "✗": "x", "✓": "+", "…": "."}
)
"""One character each, so that the layout holds."""


class Page:
    """Lines as wide as the console, from 60 columns up, collected and printed at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = max(MIN_WIDTH, console.width)
        self.lines: list[Text] = []

    def print(self) -> None:
        """Write the page. A terminal that knows only ASCII gets look-alikes."""
        text = Text("\n").join(self.lines)
        if self._console.options.ascii_only:
            text.plain = text.plain.translate(_LOOK_ALIKES)
        self._console.print(text, soft_wrap=True)

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line as it is."""
        self.lines.append(Text.assemble(*parts))

    def blank(self) -> None:
        """An empty line between sections."""
        self.lines.append(Text())

    def title(self, left: str, right: str = "", style: str = "bold") -> None:
        """A section's heading, with a remark at the right margin where there is room for it."""
        self.blank()
        gap = self.width - len(left) - len(right)
        if right and gap >= 2:
            self.line((left, style), " " * gap, (right, "dim"))
        else:
            self.line((left, style))
            if right:
                self.line(("  " + right, "dim"))

    def prose(self, text: str, *, indent: int = 2, mark: str = "", style: str = "", mark_style: str = "") -> None:
        """Wrapped text; `mark` stands before the first line, the others align below its text."""
        hang = indent + len(mark)
        # A URL, a path or a digest is not broken: it may stick out, but it can be copied.
        wrapped = textwrap.wrap(text, self.width - hang, break_long_words=False, break_on_hyphens=False) or [""]
        self.line(" " * indent, (mark, mark_style), (wrapped[0], style))
        for line in wrapped[1:]:
            self.line(" " * hang, (line, style))
