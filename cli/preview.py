"""`fleet preview`: the whole stack without a cloud."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.exits import CLEAN, FINDINGS, flush
from cli.options import Root, Stack

if TYPE_CHECKING:
    from preview.report_model import Report


_Format = Literal["text", "markdown", "json"]


def preview(
    stack: Stack = None,
    format_: Annotated[
        _Format, typer.Option("--format", "-f", help="For a terminal, a pull request or a machine.")
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            file_okay=False,
            help="Also write every manifest to this folder.",
            show_default=False,
        ),
    ] = None,
    no_policy: Annotated[bool, typer.Option("--no-policy", help="Do not ask the policy pack.")] = False,
    root: Root = None,
) -> int:
    """Show what a stack would create, what it costs, what was published for it and what is wrong with it.

    Needs no credentials and no Pulumi CLI. Exits with 1 when a mandatory policy is violated.
    """
    from cli.project import find_root, require_stack

    folder = find_root(root)
    name = require_stack(folder, stack)
    from preview import sdk_imports

    sdk_imports.install()
    from preview.stack_preview import preview_stack

    report = preview_stack(folder, name, out=out, ask_policies=not no_policy, for_machines=format_ == "json")
    _print(report, format_)
    # What is left are class objects; taking them down one by one takes longer than the preview's own work.
    sdk_imports.exit_fast(flush(FINDINGS if report.policies.mandatory else CLEAN))


def _print(report: Report, format_: _Format) -> None:
    if format_ == "json":
        from preview.report_json import json_text

        sys.stdout.write(json_text(report))
    elif format_ == "markdown":
        from preview.report_markdown import markdown_text

        sys.stdout.write(markdown_text(report))
    else:
        from cli.terminal import stdout_paper
        from preview.report_text import print_text

        print_text(report, stdout_paper())
