"""Where the project is, and which stacks it has. Reads names of files only: shell completion uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleet.cli.exits import CommandError
from settings.names import stack_names

PROJECT_FILE = "Pulumi.yaml"


def find_root(given: Path | None) -> Path:
    """The project's folder: as given, else the nearest one upwards that has a Pulumi.yaml."""
    if given is not None:
        if not (given / PROJECT_FILE).is_file():
            raise CommandError(f"--root {given}: there is no {PROJECT_FILE} in this folder")
        return given.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    raise CommandError(
        f"neither {here} nor any folder above it has a {PROJECT_FILE}; go to the project's folder or pass --root"
    )


def require_stack(root: Path, given: str | None) -> str:
    """The stack that was named. Raises CommandError with the names there are."""
    if given:
        return given
    known = ", ".join(stack_names(root)) or f"none yet: there is no Pulumi.NAME.yaml in {root}"
    raise CommandError(f"which stack? Pass --stack NAME; this project has {known}")


def require_stacks(root: Path, given: Sequence[str], *, every: bool) -> tuple[str, ...]:
    """The stacks that were named, each once, in the order given, and after them all others if `every`.

    Raises CommandError where that is none.
    """
    names = dict.fromkeys((*given, *stack_names(root))) if every else dict.fromkeys(given)
    return tuple(names) or (require_stack(root, None),)
