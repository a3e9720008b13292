"""`fleet doctor`: what this machine, and with `--live` the Google Cloud project, lacks for each step, and what mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Root, Stack

if TYPE_CHECKING:
    from pathlib import Path

    from fleet.cli.machine import Check, Step
    from fleet.doctor.rows import LiveReport


def doctor(
    step: Annotated[
        Literal["preview", "rehearse", "up", "bench"] | None,
        typer.Option(
            "--for",
            help="Only this step; it decides the exit code. Default: shows all, and preview decides.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="With `--for up`: also ask your gcloud for quota, machines, permissions. Changes nothing."
        ),
    ] = False,
    stack: Stack = None,
    format_: Annotated[
        Literal["text", "json"], typer.Option("--format", "-f", help="For a person or a machine.")
    ] = "text",
    root: Root = None,
) -> int:
    """Say what this machine lacks to preview, rehearse, bring up and measure a fleet.

    Exits with 0 when the step can be taken, with 1 when something is missing or, with --live, unknown. Shows no
    credential, and reads one only with --live: an access token, for the two questions that gcloud has no command for.
    """
    from fleet.cli.machine import STEPS, inspect_machine, lacks
    from fleet.cli.project import find_root

    if live and step != "up":
        raise CommandError("--live asks what `pulumi up` needs of Google Cloud; write --for up --live")
    folder = find_root(root)
    report = _look(folder, stack) if live else None
    checks = inspect_machine(folder, stack)
    if format_ == "json":
        import json
        from dataclasses import asdict

        from fleet.doctor.report import document

        ready = {name: not lacks(checks, name) for name in STEPS}
        told: dict[str, Any] = {"ready": ready, "checks": [asdict(check) for check in checks]}
        if report is not None:
            told["live"] = document(report)
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        _print(checks, STEPS if step is None else (step,), report)
    return FINDINGS if lacks(checks, step or "preview") or (report is not None and not report.clean) else CLEAN


def _look(folder: Path, stack: str | None) -> LiveReport:
    """What Google Cloud says of the stack. Raises SettingsError for a stack that `pulumi up` would refuse."""
    from fleet.cli.project import require_stack
    from fleet.doctor.live import look
    from settings.load import accept, parse
    from settings.names import stack_names
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


def _print(checks: tuple[Check, ...], steps: tuple[Step, ...], report: LiveReport | None) -> None:
    from fleet.cli.machine import lacks
    from fleet.doctor.report import write
    from fleet.report.terminal import Page, stdout_paper

    page = Page(stdout_paper())
    width = max(len(check.name) for check in checks) + 2
    for step in steps:
        missing = lacks(checks, step)
        verdict = ("ready", "bold green") if not missing else (f"{len(missing)} missing", "bold red")
        page.line((step, "bold"), "  ", verdict)
        for check in (check for check in checks if step in check.steps):
            name = f"{'✓' if check.ok else '✗'} {check.name:<{width}}"
            style = "green" if check.ok else "red"
            page.prose(check.found, mark=name, mark_style=style, style="" if check.ok else "red")
            if not check.ok:
                page.prose(check.why, indent=width + 4, style="dim")
                page.pointer(check.mend, indent=width + 4)
        page.blank()
    if report is not None:
        write(page, report)
    page.print()
