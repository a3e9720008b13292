"""`--format FORMAT[=FILE]`: one run writes several formats, at most one of them to stdout."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from facts.files import write_whole
from fleet.report.terminal import PLAIN_WIDTH, Paper, stdout_paper

if TYPE_CHECKING:
    from fleet.report.outline import Outline

Documents = Mapping[str, Path | None]
"""The file of each format that was asked for; None is stdout."""


def format_option(*formats: str) -> Any:
    """A repeatable `--format`; `documents_of` reads its value."""

    def check(given: Sequence[str] | None) -> Sequence[str]:
        given = given or ()
        for one in given:
            name, equals, file = one.partition("=")
            if name not in formats:
                raise typer.BadParameter(f"{name!r} is not one of {', '.join(formats)}.")
            if equals and not file:
                raise typer.BadParameter(f"{one}: the file is missing; write {name}=FILE.")
        names = [one.partition("=")[0] for one in given]
        if len(set(names)) < len(names) or sum("=" not in one for one in given) > 1:
            raise typer.BadParameter(
                f"{' '.join(given)}: each format once, and one of them to stdout; write the others as FORMAT=FILE."
            )
        return given

    return typer.Option(
        "--format",
        "-f",
        metavar=f"{'|'.join(formats)}[=FILE]",
        callback=check,
        help="Output format; =FILE writes to a file. Repeatable. Default: text.",
    )


def documents_of(given: Sequence[str] | None) -> Documents:
    """The formats in the order given; text on stdout when none is."""
    parts = (one.partition("=") for one in given or ("text",))
    return {name: Path(file) if equals else None for name, equals, file in parts}


def show(outline: Outline, format_: str, file: Path | None = None, *, details: bool = False) -> None:
    """Write a report in `text`, `json`, `markdown` or `html` to a file or to stdout; `details`: of a text, more than its first screen."""
    if format_ == "text":
        from fleet.report.as_text import print_text

        if file is None:
            print_text(stdout_paper(), outline, details=details)
            return
        stream = io.StringIO()
        print_text(Paper(stream=stream, width=PLAIN_WIDTH, styled=False), outline, details=details)
        document = stream.getvalue()
    else:
        document = _document(outline, format_)
    if file is None:
        sys.stdout.write(document)
    else:
        write_whole(file, document.encode(errors="backslashreplace"))


def _document(outline: Outline, format_: str) -> str:
    """Each renderer is imported when it is used."""
    if format_ == "json":
        from fleet.report.as_json import json_text

        return json_text(outline)
    if format_ == "html":
        from fleet.report.as_html import html_text

        return html_text(outline)
    from fleet.report.as_markdown import markdown_text

    return markdown_text(outline)


def say_next(*commands: str) -> None:
    """Print the commands that come next."""
    from fleet.report.outline import Outline, next_steps

    show(Outline(title="Next", body=next_steps(*commands).body), "text")
