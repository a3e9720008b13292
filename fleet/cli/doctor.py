"""`fleet doctor`: prerequisites that are missing on this machine or, with `--live`, in the Google Cloud project."""

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
        Literal["preview", "rehearse", "up", "bench", "pull-requests"] | None,
        typer.Option("--for", help="Check only this step. Default: show all; the exit code is that of preview."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With `--for up`: also check quota, machines and permissions with your gcloud. Changes nothing.",
        ),
    ] = False,
    stack: Stack = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", "-f", help="Output format.")] = "text",
    root: Root = None,
) -> int:
    """Check the prerequisites for previewing, rehearsing, bringing up and measuring a fleet, and for judging pull requests.

    Exits with 1 if one is missing or, with --live, unknown. Credentials are never shown; only --live reads one, an access
    token, for two queries without a gcloud command.
    """
    from fleet.cli.machine import STEPS, inspect_machine, lacks
    from fleet.cli.project import find_root

    if live and step != "up":
        raise CommandError("--live needs --for up")
    folder = find_root(root)
    report = _look_up(folder, stack) if live else None
    checks = inspect_machine(folder, stack)
    if format_ == "json":
        import json
        from dataclasses import asdict

        from fleet.doctor.report import document

        ready = {name: not lacks(checks, name) for name in STEPS}
        shown: dict[str, Any] = {"ready": ready, "checks": [asdict(check) for check in checks]}
        if report is not None:
            shown["live"] = document(report)
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    else:
        _print(checks, STEPS if step is None else (step,), report)
    return FINDINGS if lacks(checks, step or "preview") or (report is not None and not report.clean) else CLEAN


def _look_up(folder: Path, stack: str | None) -> LiveReport:
    """Google Cloud's side of the stack. Raises SettingsError for a stack that `pulumi up` would refuse."""
    from facts.names import stack_names
    from fleet.cli.project import require_stack
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
