"""`fleet new`: a stack file and its policy limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from facts.names import stack_names
from facts.regions import regions
from facts.texts import hint
from fleet.cli.documents import say_next
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.options import Root
from fleet.cli.project import find_root
from fleet.plan.asked import DEFAULT_CAPACITY, Asked, Capacity, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a new stack is made from."""

    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="STACK", help="Copy this stack's file and limits."),
    ] = None
    machine: Annotated[str | None, typer.Option(metavar="TYPE", help="Or: one replica on this machine type.")] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="With --machine: a model of the catalogue, or your own model's config.json. Default: the profile's.",
        ),
    ] = None
    capacity: Annotated[
        Capacity | None, typer.Option(help=f"With --machine: purchase option. Default: {DEFAULT_CAPACITY}.")
    ] = None


@with_fields
def new(
    stack: Annotated[str, typer.Argument(metavar="STACK", help="Name of the new stack.")],
    source: Source,
    place: Place,
    root: Root = None,
) -> int:
    """Write Pulumi.STACK.yaml and policy/config/STACK.json: a copy of another stack's, or one replica of a model on a machine.

    A copy leaves out what two stacks cannot share: names of cluster and namespace, a canary, encrypted secrets. Existing files
    are never replaced. `fleet plan --write` sizes a stack for a load.
    """
    folder = find_root(root)
    _require_one(folder, source, place)
    secrets: tuple[str, ...] = ()
    if source.from_ is not None:
        from fleet.plan.copied import copy_stack

        _require_known("--from", source.from_, stack_names(folder))
        files, secrets = copy_stack(folder, source.from_, stack, project=place.project)
    else:
        files = _of_a_model(folder, stack, source, place)
    for file in files:
        sys.stdout.write(f"{file.relative_to(folder)}\n")
    from fleet.plan.stack_file import next_commands

    say_next(*next_commands(folder, stack, secrets))
    return CLEAN


def _require_one(root: Path, source: Source, place: Place) -> None:
    """Raises CommandError without a source, or with options that would do nothing."""
    if source.from_ is None and source.machine is None:
        known = ", ".join(stack_names(root)) or "this project has none"
        raise CommandError(f"pass --from STACK to copy a stack ({known}), or --machine TYPE with --model ID")
    if source.from_ is None:
        return
    given = [
        f"--{field.name}"
        for field in fields(source)
        if field.name != "from_" and getattr(source, field.name) is not None
    ]
    for option in (*given, *(one for one in place.given() if one != "--project")):
        raise CommandError(f"--from and {option} cannot be combined; edit the copy")


def _of_a_model(root: Path, stack: str, source: Source, place: Place) -> tuple[Path, ...]:
    """One replica of the model. Raises UserError for what is not known or does not fit."""
    from facts.machines import MACHINES, meant_machine
    from fleet.plan.planning import plan
    from fleet.plan.question.asking import NoFitError, question_of
    from fleet.plan.stack_file import region_with, write_stack

    assert source.machine is not None
    meant = meant_machine(source.machine)
    _require_known("--machine", source.machine, MACHINES, meant.type if meant else None)
    zone = place.zone or ""
    region = zone if zone in regions() else zone.rpartition("-")[0] or region_with(source.machine)
    asked = Asked(users=1, machine=source.machine, model=source.model, capacity=source.capacity, region=region)
    heading = f"{stack}: one replica, written by `fleet new`. `fleet plan` sizes a fleet for a load."
    try:
        planned = plan(question_of(asked, for_stack=True))
    except NoFitError as error:
        if source.model is not None:
            raise
        raise CommandError(f"{error.for_user()}. This is the profile's model; --model names another") from None
    return write_stack(root, stack, planned, place, config=asked.model_file, heading=heading)


def _require_known(option: str, name: str, known: Iterable[str], meant: str | None = None) -> None:
    """Raises CommandError with the nearest name, or with all if none is near."""
    names = tuple(known)
    if name not in names:
        raise CommandError(f"{option} {name} is not known; {hint(name, names, meant)}")
