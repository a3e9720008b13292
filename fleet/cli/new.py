"""`fleet new`: a stack file and its policy limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from facts.names import stack_names
from facts.texts import hint
from fleet.cli.documents import say_next
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.options import Root
from fleet.cli.project import find_root
from fleet.plan.asked import DEFAULT_CAPACITY, Asked, Capacity


def new(
    stack: Annotated[str, typer.Argument(metavar="STACK", help="Name of the new stack.")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="STACK", help="Copy this stack's file and limits.")
    ] = None,
    machine: Annotated[str | None, typer.Option(metavar="TYPE", help="Or: one replica on this machine type.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="With --machine: a model of the catalogue, or your own model's config.json. Default: the profile's.",
        ),
    ] = None,
    capacity: Annotated[
        Capacity | None, typer.Option(help=f"With --machine: purchase option. Default: {DEFAULT_CAPACITY}.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="With --machine: a zone that has it. Default: a known one.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="ID", help="Google Cloud project. Default: a placeholder.")
    ] = None,
    root: Root = None,
) -> int:
    """Write Pulumi.STACK.yaml and policy/config/STACK.json: a copy of another stack's, or one replica of a model on a machine.

    A copy leaves out what two stacks cannot share: names of cluster and namespace, a canary, encrypted secrets. Existing files
    are never replaced. `fleet plan --write` sizes a stack for a load.
    """
    folder = find_root(root)
    if from_ is None and machine is None:
        known = ", ".join(stack_names(folder)) or "this project has none"
        raise CommandError(f"pass --from STACK to copy a stack ({known}), or --machine TYPE with --model ID")
    secrets: tuple[str, ...] = ()
    if machine is None:
        from fleet.plan.copied import copy_stack

        assert from_ is not None
        for option, value in (("--model", model), ("--capacity", capacity), ("--zone", zone)):
            if value is not None:
                raise CommandError(f"--from and {option} cannot be combined; edit the copy")
        _require_known("--from", from_, stack_names(folder))
        files, secrets = copy_stack(folder, from_, stack, project=project)
        if len(files) == 1:
            sys.stderr.write(
                f"policy/config/{from_}.json is not there: {stack} has no limits, such as one of the price.\n"
            )
    elif from_ is not None:
        raise CommandError("--from and --machine cannot be combined; edit the copy")
    else:
        asked = Asked(users=1, machine=machine, model=model, capacity=capacity)
        files = _of_a_model(folder, stack, asked, project, zone)
    for file in files:
        sys.stdout.write(f"{file.relative_to(folder)}\n")
    from fleet.plan.stack_file import next_commands

    say_next(*next_commands(folder, stack, secrets))
    return CLEAN


def _of_a_model(root: Path, stack: str, asked: Asked, project: str | None, zone: str | None) -> tuple[Path, ...]:
    """One replica of the model. Raises UserError for what is not known or does not fit."""
    from facts.machines import MACHINES, meant_machine
    from fleet.plan.planning import plan
    from fleet.plan.question.asking import NoFitError, question_of
    from fleet.plan.stack_file import Place, region_with, write_stack

    assert asked.machine is not None
    meant = meant_machine(asked.machine)
    _require_known("--machine", asked.machine, MACHINES, meant.type if meant else None)
    region = (zone or "").rpartition("-")[0] or region_with(asked.machine)
    heading = f"{stack}: one replica, written by `fleet new`. `fleet plan` sizes a fleet for a load."
    try:
        planned = plan(question_of(replace(asked, region=region), for_stack=True))
    except NoFitError as error:
        if asked.model is not None:
            raise
        raise CommandError(f"{error.for_user()}. This is the profile's model; --model names another") from None
    place = Place(project=project, zone=zone)
    return write_stack(root, stack, planned, place, config=asked.model_file, heading=heading)


def _require_known(option: str, name: str, known: Iterable[str], meant: str | None = None) -> None:
    """Raises CommandError with the nearest name, or with all if none is near."""
    names = tuple(known)
    if name not in names:
        raise CommandError(f"{option} {name} is not known; {hint(name, names, meant)}")
