"""A report on a terminal: rich prints its Markdown."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from fleet.report.as_markdown import markdown_text
from fleet.report.markdown import WHOLE
from fleet.report.outline import first_screen
from fleet.report.printable import beneath, printable
from fleet.report.terminal import MIN_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import ConsoleOptions, RenderResult
    from rich.markdown import TableDataElement

    from fleet.report.outline import Outline
    from fleet.report.terminal import Paper

_ALERT: Final = re.compile(r"^(> )\[!(\w+)\]$", re.MULTILINE)
"""An alert box of GitHub, which rich shows as a quotation."""
_FOLD: Final = re.compile(r"^</?details>(?:<summary>(.*)</summary>)?$", re.MULTILINE)
_PADDING: Final = re.compile(r" +$", re.MULTILINE)
_EMPTY_LINES: Final = re.compile(r"\n{3,}")
_WHOLE_WORDS: Final[Any] = {"break_long_words": False, "break_on_hyphens": False}
_GAP: Final = 2
"""Columns between two columns of a table."""
_TITLE: Final = "markdown.h3"
"""Markdown's headings begin at the third level, as in a comment."""
_HEADINGS: Final = ("markdown.h4", "markdown.h5", "markdown.h6")
_TONES: Final = {"good": "bold green", "warn": "bold yellow", "bad": "bold red"}
"""Of a verdict."""
_SIGNS: Final = {"+": "green", "-": "red", "!": "yellow"}


def print_text(paper: Paper, outline: Outline, *, details: bool = False) -> None:
    """Write the report to `paper`: its first screen, or all of it."""
    text = markdown_text(outline if details else first_screen(outline), limit=WHOLE)
    text = _FOLD.sub(lambda found: f"**{found[1]}**" if found[1] else "", _ALERT.sub(r"\1**\2:**", text))
    # The zero-width spaces that keep GitHub from linking would be copied from a terminal; so would a minus sign.
    text = printable(text.replace("<br>", " · ").replace("\u200b", "").replace("\N{MINUS SIGN}", "-"))
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(MIN_WIDTH, paper.width),
        force_terminal=paper.styled,
        highlight=False,
        legacy_windows=False,
        theme=Theme(dict.fromkeys(_HEADINGS, "bold") | {_TITLE: _TONES.get(outline.tone, "bold")}),
    )
    console.print(_Screen(text, hyperlinks=False), crop=False)
    beneath(paper.stream).write(_EMPTY_LINES.sub("\n\n", _PADDING.sub("", out.getvalue())))


class _Heading(Heading):
    """At the left, with its text on the next line."""

    new_line = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain, style=self.style_name)


class _Lines(CodeBlock):
    """Lines as they are: a command is copied whole, and a line of a tree is broken below its own beginning."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_tree = self.lexer_name == "diff"
        for line in str(self.text).rstrip().splitlines():
            style = _SIGNS.get(line[:1], "") if is_tree else ""
            below = " " * (len(line) - len(line[1:].lstrip()) + 3)
            broken = textwrap.wrap(line, options.max_width, subsequent_indent=below, **_WHOLE_WORDS)
            yield Text("\n".join(broken) if is_tree else f"  {line}", style=style, no_wrap=True, overflow="ignore")


class _Table(TableElement):
    """A table whose words are never broken: an id is there to be copied. Where it is too wide for that, each row is a block."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        assert self.header is not None
        assert self.header.row is not None
        head = self.header.row.cells
        rows = [row.cells for row in self.body.rows] if self.body is not None else []
        columns = list(zip(head, *rows, strict=True))
        least = [max(len(text) for cell in column for text in _unbroken(cell)) for column in columns]
        widths = [max(len(cell.content.plain) for cell in column) for column in columns]
        room = options.max_width - _GAP * (len(columns) - 1)
        if sum(least) > room:
            yield from (_block(head, row, options.max_width) for row in rows)
            return
        while sum(widths) > room:
            may_shrink = [column for column, width in enumerate(widths) if width > least[column]]
            widths[max(may_shrink, key=widths.__getitem__)] -= 1
        table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, collapse_padding=True)
        for cell, width in zip(head, widths, strict=True):
            table.add_column(cell.content, width=width, header_style="bold")
        for row in rows:
            table.add_row(*(cell.content for cell in row))
        yield table


def _block(head: Sequence[TableDataElement], row: Sequence[TableDataElement], width: int) -> Text:
    """A row's first cell, and the others with their titles below it."""
    first, *others = ((title.content.plain, cell.content.plain) for title, cell in zip(head, row, strict=True))
    told = " · ".join(f"{title} {text}".strip() for title, text in others if text)
    lines = textwrap.wrap(told, width, initial_indent="  ", subsequent_indent="  ", **_WHOLE_WORDS)
    return Text("\n".join([first[1], *lines]), no_wrap=True, overflow="ignore")


def _unbroken(cell: TableDataElement) -> list[str]:
    """What stays on one line: a number with its unit, a word of a text."""
    text = cell.content.plain
    return [text] if cell.justify == "right" else text.split() or [""]


class _Screen(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading, "fence": _Lines, "table_open": _Table}
