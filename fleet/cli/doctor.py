"""`fleet doctor`: what this machine lacks for each step, and the command that mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.options import Root, Stack

if TYPE_CHECKING:
    from fleet.cli.machine import Check


def doctor(
    step: Annotated[
        Literal["preview", "rehearse", "up", "bench"],
        typer.Option("--for", help="The step that decides the exit code."),
    ] = "preview",
    stack: Stack = None,
    format_: Annotated[
        Literal["text", "json"], typer.Option("--format", "-f", help="For a person or a machine.")
    ] = "text",
    root: Root = None,
) -> int:
    """Say what this machine lacks to preview, rehearse, bring up and measure a fleet.

    Exits with 0 when the step can be taken, with 1 when something is missing. Reads no credential: it only looks
    whether there is one.
    """
    from fleet.cli.machine import STEPS, inspect_machine, lacks
    from fleet.cli.project import find_root

    checks = inspect_machine(find_root(root), stack)
    if format_ == "json":
        import json
        from dataclasses import asdict

        ready = {name: not lacks(checks, name) for name in STEPS}
        document = {"ready": ready, "checks": [asdict(check) for check in checks]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _print(checks)
    return FINDINGS if lacks(checks, step) else CLEAN


def _print(checks: tuple[Check, ...]) -> None:
    from fleet.cli.machine import STEPS, lacks
    from fleet.report.terminal import Page, stdout_paper

    page = Page(stdout_paper())
    width = max(len(check.name) for check in checks) + 2
    for step in STEPS:
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
    page.print()
