"""Options that several commands share, declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.cli.exits import CommandError
from fleet.cli.project import find_root
from settings.names import stack_names


def choices(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Shell completion from a list of names, which is read only when the shell asks."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _complete_stack(ctx: typer.Context, incomplete: str) -> list[str]:
    try:
        root = find_root(ctx.params.get("root"))
    except CommandError:
        return []
    return [name for name in stack_names(root) if name.startswith(incomplete)]


def finite(value: float | None) -> float | None:
    """Callback of a number option: refuses `nan` and `inf`, which Python reads as numbers."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def _stack_option(about: str) -> Any:
    return typer.Option(
        "--stack",
        "-s",
        metavar="NAME",
        envvar="PULUMI_STACK",
        show_envvar=True,
        autocompletion=_complete_stack,
        help=about,
        show_default=False,
    )


Stack = Annotated[str | None, _stack_option("Name of the stack: reads Pulumi.NAME.yaml.")]
Stacks = Annotated[list[str] | None, _stack_option("Name of the stack: reads Pulumi.NAME.yaml. Repeatable.")]
Outputs = Annotated[
    Path | None,
    typer.Option(
        "--outputs",
        metavar="FILE",
        dir_okay=False,
        help="What `pulumi stack output --json --show-secrets` printed. Default: ask Pulumi.",
        show_default=False,
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", dir_okay=False, help="Instead of the stack's own.", show_default=False
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="A context of --kubeconfig, or of your own.", show_default=False),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        file_okay=False,
        help="The project's folder. Default: the nearest one upwards with a Pulumi.yaml.",
        show_default=False,
    ),
]
