"""`--format FORMAT[=FILE]`: one run writes several formats, at most one of them to stdout."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from facts.files import write_whole
from fleet.report.terminal import PLAIN_WIDTH, Page, Paper, stdout_paper

if TYPE_CHECKING:
    from fleet.report.outline import Outline
    from fleet.report.terminal import Paper

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
            if equals and not Path(file).parent.is_dir():
                raise typer.BadParameter(f"{one}: no such folder: {Path(file).parent}.")
            if equals and Path(file).is_dir():
                raise typer.BadParameter(f"{one}: {file} is a folder.")
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


def show(outline: Outline, format_: str, file: Path | None = None) -> None:
    """Write a report in `text`, `json`, `markdown` or `html` to a file or to stdout."""
    from fleet.report.render import rendered

    deliver(rendered(outline, format_), file)


def deliver(document: str | Callable[[Paper], None], file: Path | None) -> None:
    """Write a document, or what is printed on paper, to a file or to stdout."""
    if file is None:
        if isinstance(document, str):
            sys.stdout.write(document)
        else:
            document(stdout_paper())
        return

    if not isinstance(document, str):
        stream = io.StringIO()
        document(Paper(stream=stream, width=PLAIN_WIDTH, styled=False))
        document = stream.getvalue()
    write_whole(file, document.encode(errors="backslashreplace"))


def say_next(*commands: str) -> None:
    """Print the commands that come next."""
    page = Page(stdout_paper())
    page.title("Next")
    for command in commands:
        page.pointer(command, indent=2)
    page.print()
