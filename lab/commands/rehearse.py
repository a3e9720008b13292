"""`fleet rehearse`: the stack on a real Kubernetes control plane, with a simulated Google Cloud and failure drills."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from facts.files import write_whole
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError, leave
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack
from fleet.doctor.packages import require_rehearsal_packages
from fleet.report.terminal import stderr_paper, stdout_paper

if TYPE_CHECKING:
    from lab.drills.drill import Drill
    from lab.report.model import RehearsalReport


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
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            file_okay=False,
            help="Also write the report to this folder, as rehearsal.md and rehearsal.json.",
        ),
    ] = None,
) -> int:
    """Apply a stack to a local Kubernetes control plane with a simulated Google Cloud, and play failure drills.

    Needs no cloud and no GPU. The first run builds Pulumi and a control plane with Go, which takes half an hour of a processor. Without
    --drill, plays every drill. Exits with 1 when a drill fails; Ctrl-C keeps the drills that have ended. --shell and
    --command play none: they let you type what you would type against Google Cloud; the exit code is the shell's or the command's.
    """
    if (shell or command) and (drill or list_ or out is not None or format_ != "text"):
        raise CommandError("--shell and --command play no drills: leave out --drill, --list, --out and --format")
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
    if out is not None:
        _prepare(out)
    return _run(folder, name, drills, format_, out)


def _run(root: Path, stack: str, drills: tuple[Drill, ...], format_: Format, out: Path | None) -> NoReturn:
    from lab.commands.rehearsal import rehearse as play
    from lab.report.progress import Progress

    report = play(root, stack, drills, progress=Progress(None if format_ == "json" else stdout_paper()))
    written, trouble = ((), None) if out is None else _written(report, out)
    from lab.report.outline import outline

    show(outline(report, written=written), format_)
    if trouble is not None:
        raise trouble
    leave(report.stop_code or (CLEAN if report.passed else FINDINGS))


def _open_shell(root: Path, stack: str, commands: tuple[str, ...]) -> NoReturn:
    from lab.commands.shell import open_shell
    from lab.report.progress import Progress

    # On stderr: stdout is for the commands.
    leave(open_shell(root, stack, commands, progress=Progress(stderr_paper())))


def _prepare(out: Path) -> None:
    """Create the folder before the rehearsal, which takes minutes."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise CommandError(f"--out {out}: permission denied")


def _written(report: RehearsalReport, out: Path) -> tuple[tuple[str, ...], CommandError | None]:
    """The written files, and the error of the others: the report is printed in any case."""
    from fleet.report.as_json import json_text
    from fleet.report.as_markdown import markdown_text
    from lab.report.outline import outline

    written: list[str] = []
    whole = outline(report)
    try:
        for name, text in (("rehearsal.md", markdown_text(whole)), ("rehearsal.json", json_text(whole))):
            write_whole(out / name, text.encode(errors="backslashreplace"))
            written.append(str(out / name))
    except OSError as error:
        return tuple(written), _unwritable(out, error)
    return tuple(written), None


def _unwritable(out: Path, error: OSError) -> CommandError:
    return CommandError(f"--out {out}: {error.strerror or error}")


def _print_drills(drills: tuple[Drill, ...], format_: Format) -> None:
    if format_ == "json":
        listed = [{"name": drill.name, "title": drill.title, "proves": drill.proves} for drill in drills]
        sys.stdout.write(json.dumps({"drills": listed}, indent=2) + "\n")
        return
    width = max(len(drill.name) for drill in drills)
    for one in drills:
        sys.stdout.write(f"{one.name:<{width}}  {one.proves}\n")
