"""`fleet batch plan`: what a file of documents costs, before anything is rented."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facts.regions import regions
from facts.texts import hint
from fleet.cli.batch.reading import Read
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.options import Deadline, Format, Headroom, Model, Root
from fleet.cli.project import find_root, require_stack
from fleet.plan.asked import ANY_MACHINE, DEFAULT_HEADROOM, Asked, Capacity

if TYPE_CHECKING:
    from fleet.batch.planning import OfStack
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Until when the batch must end, and on what it may run."""

    deadline: Deadline = None
    # Not the shared option, which also reads PULUMI_STACK: that would change what is planned.
    stack: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model, engine, machine, region and deadline of Pulumi.NAME.yaml."),
    ] = None
    machine: Annotated[
        str | None, typer.Option(metavar=f"TYPE|{ANY_MACHINE}", help="Machine type. Default: any, compared by price.")
    ] = None
    model: Model = None
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Engine profile. Default: serve-batch, or by the lengths.")
    ] = None
    capacity: Annotated[
        Capacity | None, typer.Option(help="Purchase option. Default: spot; all with --machine any.")
    ] = None
    region: Annotated[str | None, typer.Option(metavar="REGION", help="Region of the list prices.")] = None
    headroom: Headroom = DEFAULT_HEADROOM

    def asked(self) -> Asked:
        """The planner's options."""
        return Asked(
            deadline=self.deadline,
            machine=None if self.machine == ANY_MACHINE else self.machine,
            model=self.model,
            profile=self.profile,
            capacity=self.capacity,
            region=self.region,
            headroom=self.headroom,
        )


def _of_stack(wanted: Wanted, root: Path | None) -> tuple[OfStack, Settings]:
    """The fleets of a stack, and its settings. Raises CommandError for options that it decides."""
    from fleet.batch.planning import OfStack
    from settings.load import parse
    from settings.stack_file import read

    folder = find_root(root)
    name = require_stack(folder, wanted.stack)
    content = read(folder, name)
    for option in ("machine", "model", "profile", "capacity", "region"):
        if getattr(wanted, option) is not None:
            raise CommandError(f"--{option} cannot be combined with --stack, which decides it")
    settings = parse(name, content.config, content.unopened)
    section = settings.batch
    if section.enabled:
        # As `fleet batch run` does.
        wanted = replace(wanted, deadline=wanted.deadline or section.deadline)
    return OfStack(name, settings, wanted.asked()), settings


def _local(given: str) -> Path:
    """The file. Raises CommandError."""
    from fleet.batch.inputs import is_object

    if is_object(given):
        raise CommandError(
            f"{given}: plan reads files of this machine, without a login; pass one (`gcloud storage cp {given} .`). `fleet batch run` "
            "reads objects itself"
        )
    if not (path := Path(given)).exists():
        raise CommandError(f"{given}: no such file")
    return path


@with_fields
def plan(
    # Text: a Path would lose a slash of gs://.
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSONL in OpenAI's batch format, or with --template.")],
    read: Read,
    wanted: Wanted,
    format_: Format = "text",
    root: Root = None,
) -> int:
    """Check each line of a batch, count its tokens with the model's tokenizer, and plan the fleet that processes it.

    Needs no cloud, no credentials and no stack. Exits with 1 for bad lines, and if no fleet keeps the deadline.
    """
    from fleet.batch import report
    from fleet.batch.planning import Machines, load_of
    from fleet.doctor.packages import require_batch_packages

    require_batch_packages()
    if wanted.region is not None and wanted.region not in (known := regions()):
        raise CommandError(f"--region {wanted.region} is not known; {hint(wanted.region, sorted(known))}")
    settings = None
    if wanted.stack is None:
        fleets: Machines | OfStack = Machines(wanted.asked())
    else:
        fleets, settings = _of_stack(wanted, root)
    form, id_key = read.form(settings)
    path = _local(file)
    found, counter = read.scan(path, form, id_key, fleets)
    if counter is None or found.bad:
        show(report.refused(path, found), format_)
        return FINDINGS
    load = load_of(found, read.output_tokens)
    source = report.Source(
        file=path,
        served=fleets.served,
        tokenizer=counter.name,
        tokens=counter.vocabulary,
        vocabulary=fleets.shape.vocabulary,
        seed=read.seed,
    )
    planned, is_reached = report.planned_on(fleets, load)
    show(report.outline(source, load, planned), format_)
    return CLEAN if is_reached else FINDINGS
