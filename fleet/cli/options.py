"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fleet.cli.project import find_root, require_stack


def _stack_option(help_: str) -> Any:
    return typer.Option(
        "--stack",
        "-s",
        metavar="NAME",
        envvar="PULUMI_STACK",
        show_envvar=True,
        help=help_,
    )


Stack = Annotated[str | None, _stack_option("Stack; reads Pulumi.NAME.yaml.")]
Stacks = Annotated[list[str] | None, _stack_option("Stack; reads Pulumi.NAME.yaml. Repeatable.")]
Profile = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="Profile of settings/profiles.yaml."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation of the cost.")]
Outputs = Annotated[
    Path | None,
    typer.Option(
        "--outputs",
        metavar="FILE",
        dir_okay=False,
        help="Output of `pulumi stack output --json --show-secrets`. Default: run it.",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", exists=True, dir_okay=False, help="Kubeconfig file. Default: the stack's own."
    ),
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of --kubeconfig, or of your kubeconfig.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root", metavar="DIR", file_okay=False, help="Project folder. Default: the nearest parent with a Pulumi.yaml."
    ),
]

# Of `fleet plan` and `fleet batch`.
Deadline = Annotated[
    str | None, typer.Option(metavar="8h", help="Time to finish the batch, start-up included; also 90m, 1.5d.")
]
Model = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Model of the catalogue, or your own model's config.json. Default: the profile's."),
]
Headroom = Annotated[float, typer.Option(min=0.0, max=0.95, help="Share of full load to leave free.")]

Format = Annotated[Literal["text", "json"], typer.Option("--format", "-f", help="Output format.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStack:
    """The stack that a command is about."""

    stack: Stack = None
    root: Root = None

    def find(self) -> tuple[Path, str]:
        """Its project's folder, and its name. Raises CommandError."""
        folder = find_root(self.root)
        return folder, require_stack(folder, self.stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """How a running stack is reached."""

    outputs: Outputs = None
    kubeconfig: Kubeconfig = None
    context: Context = None

    @property
    def names_cluster(self) -> bool:
        """Whether the cluster is named, and not that of the stack's outputs."""
        return self.kubeconfig is not None or self.context is not None
