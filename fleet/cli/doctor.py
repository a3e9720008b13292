"""`fleet doctor`: prerequisites that are missing on this machine or, with `--live`, in the Google Cloud project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from facts.finding import block
from facts.names import stack_names
from facts.texts import hint
from fleet.cli import lab
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Format, Root, Stack
from fleet.cli.project import find_root, require_stack
from fleet.doctor.packages import require_google_packages

if TYPE_CHECKING:
    from pathlib import Path

    from fleet.doctor.rows import LiveReport


def doctor(
    step: Annotated[
        Literal["preview", "rehearse", "up", "bench", "pull-requests"] | None,
        typer.Option("--for", help="Check only this step. Default: show all; the exit code is that of preview."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With `--for up`: also check quota, machines and permissions with your login. Changes nothing.",
        ),
    ] = False,
    stack: Stack = None,
    format_: Format = "text",
    root: Root = None,
) -> int:
    """Check the prerequisites for previewing, rehearsing, bringing up and measuring a fleet, and for judging pull requests.

    Exits with 1 if one is missing or, with --live, unknown. Credentials are never shown; only --live reads one, the login
    that `pulumi up` uses.
    """
    from fleet.doctor.machine import STEPS, inspect_machine, needed_by
    from fleet.doctor.report import outline

    if live and step != "up":
        raise CommandError("--live needs --for up")
    folder = find_root(root)
    if stack is not None and stack not in (known := stack_names(folder)):
        raise CommandError(f"--stack {stack} is not known; {hint(stack, known)}")
    report = _look_up(folder, stack) if live else None
    checks = inspect_machine(folder, stack, of_rehearsals=lab.prerequisites())
    needed = {str(name): needed_by(checks, name) for name in STEPS}
    # The JSON document has all findings, whatever is asked for.
    steps = STEPS if step is None or format_ == "json" else (step,)
    show(outline(needed, steps, report), format_)
    return FINDINGS if block(needed[step or "preview"]) or (report is not None and not report.clean) else CLEAN


def _look_up(folder: Path, stack: str | None) -> LiveReport:
    """Google Cloud's side of the stack. Raises SettingsError for a stack that `pulumi up` would refuse."""
    require_google_packages()
    from fleet.doctor.live import look
    from settings.load import accept, parse
    from settings.problems import SettingsError
    from settings.stack_file import read

    name = require_stack(folder, stack)
    file = read(folder, name)
    settings = accept(name, file.config, file.unopened)
    others = []
    for other in stack_names(folder):
        try:
            others.append(parse(other, read(folder, other).config))
        except SettingsError:
            continue  # it could not be brought up either
    return look(settings, others)
