"""Finds the project folder and its stacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from facts.names import stack_names
from fleet.cli.exits import CommandError

PROJECT_FILE = "Pulumi.yaml"


def find_root(given: Path | None) -> Path:
    """The given project folder, else the nearest parent with a Pulumi.yaml."""
    if given is not None:
        if not (given / PROJECT_FILE).is_file():
            raise CommandError(f"--root {given}: no {PROJECT_FILE} in this folder")
        return given.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    raise CommandError(
        f"no {PROJECT_FILE} in {here} or its parents; change to the project folder, pass --root DIR, or write the file: "
        "`name: vllm-fleet` and `runtime: python`"
    )


def require_stack(root: Path, given: str | None) -> str:
    """The given stack. Raises CommandError with the existing names if none is given."""
    if given:
        return given
    known = ", ".join(stack_names(root)) or f"none (no Pulumi.NAME.yaml in {root})"
    raise CommandError(f"--stack is missing; stacks of this project: {known}")


def require_stacks(root: Path, given: Sequence[str], *, every: bool) -> tuple[str, ...]:
    """The given stacks, each once, then all others if `every`. Raises CommandError if there are none."""
    names = dict.fromkeys((*given, *stack_names(root))) if every else dict.fromkeys(given)
    return tuple(names) or (require_stack(root, None),)
