"""`fleet rehearse`: the stack on a real Kubernetes control plane, with a simulated Google Cloud and failure drills."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError, leave
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack
from fleet.doctor.packages import require_rehearsal_packages
from fleet.report.terminal import stderr_paper, stdout_paper

if TYPE_CHECKING:
    from lab.drills.drill import Drill


@with_fields
def rehearse(
    of: OneStack,
    drill: Annotated[
        list[str] | None,
        typer.Option("--drill", "-d", metavar="NAME", help="Run this drill. Repeatable."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the drills and what each proves.")] = False,
    shell: Annotated[
        bool, typer.Option("--shell", help="Open a shell in the rehearsed stack: pulumi, kubectl and fleet work there.")
    ] = False,
    command: Annotated[
        list[str] | None,
        typer.Option(
            "--command",
            "-c",
            metavar="LINE",
            help="Run this command line in the rehearsed stack, as in --shell. Repeatable; stops at the first that fails.",
        ),
    ] = None,
    format_: Format = "text",
) -> int:
    """Apply a stack to a local Kubernetes control plane with a simulated Google Cloud, and play failure drills.

    Needs no cloud and no GPU. The first run builds Pulumi and a control plane with Go, which takes half an hour of a processor. Without
    --drill, plays every drill. Exits with 1 when a drill fails; Ctrl-C keeps the drills that have ended. --shell and
    --command play none: they let you type what you would type against Google Cloud; the exit code is the shell's or the command's.
    """
    if (shell or command) and (drill or list_ or format_ != "text"):
        raise CommandError("--shell and --command play no drills: leave out --drill, --list and --format")
    if shell and command:
        raise CommandError("--shell and --command cannot be combined")
    from lab.drills.catalogue import chosen

    drills = chosen(drill or ())
    if list_:
        _print_drills(drills, format_)
        return CLEAN
    folder, name = of.find()
    require_rehearsal_packages()
    if shell or command:
        return _open_shell(folder, name, tuple(command or ()))
    return _run(folder, name, drills, format_)


def _run(root: Path, stack: str, drills: tuple[Drill, ...], format_: Format) -> NoReturn:
    from lab.commands.rehearsal import rehearse as play
    from lab.report.outline import outline
    from lab.report.progress import Progress

    report = play(root, stack, drills, progress=Progress(None if format_ == "json" else stdout_paper()))
    show(outline(report), format_)
    leave(report.stop_code or (CLEAN if report.passed else FINDINGS))


def _open_shell(root: Path, stack: str, commands: tuple[str, ...]) -> NoReturn:
    from lab.commands.shell import open_shell
    from lab.report.progress import Progress

    # On stderr: stdout is for the commands.
    leave(open_shell(root, stack, commands, progress=Progress(stderr_paper())))


def _print_drills(drills: tuple[Drill, ...], format_: Format) -> None:
    if format_ == "json":
        listed = [{"name": drill.name, "title": drill.title, "proves": drill.proves} for drill in drills]
        sys.stdout.write(json.dumps({"drills": listed}, indent=2) + "\n")
        return
    width = max(len(drill.name) for drill in drills)
    for one in drills:
        sys.stdout.write(f"{one.name:<{width}}  {one.proves}\n")
