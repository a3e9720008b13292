"""`fleet preview`: one stack, or several, without a cloud."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleet.cli.exits import CHANGES, CLEAN, FINDINGS, UNUSABLE, CommandError, error_text, leave
from fleet.cli.options import Root, Stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.preview.compare.baseline import RunningBaseline
    from fleet.preview.report.model import Report
    from fleet.preview.report.several_stacks import Outcome


_Format = Literal["text", "markdown", "json", "html"]


def preview(
    stack: Stacks = None,
    all_stacks: Annotated[
        bool, typer.Option("--all-stacks", help="Every stack that has a file, in one report.")
    ] = False,
    format_: Annotated[
        _Format,
        typer.Option("--format", "-f", help="For a terminal, a pull request, a machine or a browser."),
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            file_okay=False,
            help="Also write every manifest to this folder; of several stacks, to a folder of each in it.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="GITREF|STATE.json",
            help="Show what differs from a git reference, or from what `pulumi stack export` wrote.",
            show_default=False,
        ),
    ] = None,
    no_policy: Annotated[bool, typer.Option("--no-policy", help="Do not ask the policy pack.")] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --against: exit with 4 when there are changes.")
    ] = False,
    root: Root = None,
) -> int:
    """Show what a stack would create, what it costs, what was published for it and what is wrong with it.

    With --against, what it would change: per resource, in money, and in what runs.
    Needs no credentials and no Pulumi CLI. Exits with 1 when a mandatory policy is violated. Repeat --stack, or pass
    --all-stacks, for one report of several.
    """
    from fleet.cli.project import find_root, require_stacks
    from fleet.clients.stopping import stopped_by_exception

    if detailed_exitcode and against is None:
        raise CommandError(
            "--detailed-exitcode tells whether anything changes: name what to compare with, --against REF"
        )
    folder = find_root(root)
    names = require_stacks(folder, stack or (), every=all_stacks)
    from fleet.preview.record import quick_sdk

    quick_sdk.install()
    from fleet.preview.stack_preview import preview_stack

    with stopped_by_exception(), _baseline(against, folder, names) as baseline:

        def preview_one(name: str) -> Report:
            return preview_stack(
                folder,
                name,
                out=out / name if out is not None and len(names) > 1 else out,
                ask_policies=not no_policy,
                for_machines=format_ == "json",
                against=baseline,
            )

        outcomes: tuple[Outcome, ...]
        if len(names) == 1:
            outcomes = (preview_one(names[0]),)
        else:
            from fleet.preview.report.several_stacks import by_weight, preview_each

            outcomes = by_weight(preview_each(names, preview_one, error_text))
    _print(outcomes, format_)
    leave(_exit_code(outcomes, tells_changes=detailed_exitcode))


def _baseline(against: str | None, root: Path, stacks: Sequence[str]) -> AbstractContextManager[RunningBaseline | None]:
    """What to compare with. Begun before anything else: a reference's program is recorded while this one imports."""
    if against is None:
        return nullcontext()
    from fleet.preview.compare.against import start

    return start(against, root, stacks)


def _exit_code(outcomes: Sequence[Outcome], *, tells_changes: bool) -> int:
    """The gravest: a stack without a preview, then a mandatory violation or an error of the program, then changes, if asked for."""
    from fleet.preview.report.several_stacks import refusals_of, reports_of

    reports = reports_of(outcomes)
    if refusals_of(outcomes):
        return UNUSABLE
    if any(one.policies.mandatory or any(said.severity == "error" for said in one.diagnostics) for one in reports):
        return FINDINGS
    changed = any(one.comparison is not None and one.comparison.pending for one in reports)
    return CHANGES if tells_changes and changed else CLEAN


def _print(outcomes: Sequence[Outcome], format_: _Format) -> None:
    if format_ == "text":
        from fleet.preview.report.text import print_text
        from fleet.report.terminal import stdout_paper

        print_text(stdout_paper(), *outcomes)
    elif format_ == "json":
        from fleet.preview.report.json_document import json_text

        sys.stdout.write(json_text(*outcomes))
    elif format_ == "markdown":
        from fleet.preview.report.comment import markdown_text

        sys.stdout.write(markdown_text(*outcomes))
    else:
        from fleet.preview.report.html_page import html_text

        sys.stdout.write(html_text(*outcomes))
