"""`fleet plan`: from a goal to a fleet, without a cloud."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from facts.regions import regions
from facts.texts import hint
from fleet.cli.documents import Documents, documents_of, format_option, show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.options import Root
from fleet.cli.project import find_root
from fleet.plan.asked import ANY_MACHINE, Asked, Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.doctor.advice import Advice
    from fleet.plan.plan import Plan
    from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion
    from fleet.report.outline import Outline


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What becomes of a plan."""

    format_: Annotated[list[str] | None, format_option("text", "json")] = None
    write: Annotated[str | None, typer.Option(metavar="STACK", help="Write the plan as Pulumi.STACK.yaml.")] = None
    force: Annotated[bool, typer.Option("--force", help="Let --write replace an existing file.")] = False
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With --machine, on Spot: ask Google with your login how likely each zone has the machines today. Read-only.",
        ),
    ] = False
    root: Root = None


@with_fields
def plan(asked: Asked, wanted: Wanted, place: Place) -> int:
    """Size a fleet for a goal: nodes, price, latency, start-up time, each with its uncertainty.

    Without --live it needs no cloud, no credentials and no stack. Exits with 1 if no fleet reaches the goal, and shows the nearest one.
    """
    from fleet.plan.question.asking import question_of

    formats = documents_of(wanted.format_)
    _check_options(asked, wanted, place)
    region = _region(asked.region, place.zone, write=wanted.write is not None)
    if asked.machine == ANY_MACHINE or (asked.machine is None and not any(_of_one_machine(asked, wanted).values())):
        return _anywhere(replace(asked, machine=ANY_MACHINE), formats)
    if wanted.write is not None and asked.machine is None:
        asked, region, notes = _recommended(asked, region, place)
    else:
        notes = ()
    question = question_of(replace(asked, region=region), for_stack=wanted.write is not None)
    question = replace(question, notes=(*question.notes, *notes))
    from fleet.plan.planning import plan as plan_of
    from fleet.plan.question.goals import PlanImpossibleError

    zones: tuple[Advice, ...] = ()
    try:
        answer = plan_of(question)
        if wanted.live:
            zones = _spot_zones(answer, place, asked.region)
            answer = plan_of(_with_losses(question, zones))
    except PlanImpossibleError as error:
        return _impossible(error, question, asked, formats)
    written: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    if wanted.write is not None:
        from fleet.plan.stack_file import next_commands, write_stack

        folder = find_root(wanted.root)
        files = write_stack(folder, wanted.write, answer, place, config=asked.model_file, replace=wanted.force)
        written = tuple(str(file.relative_to(folder)) for file in files)
        commands = tuple(next_commands(folder, wanted.write))
    _print(answer, formats, written, commands, zones)
    return CLEAN


def _spot_zones(answer: Plan, place: Place, region: str | None) -> tuple[Advice, ...]:
    """Google's advice on the zones that list the machine: all, or those of the region or zone that was given."""
    from facts.prices import published
    from fleet.doctor.packages import require_google_packages

    machine = answer.question.machine.type
    region = place.zone.rpartition("-")[0] if place.zone else region
    zones = [
        f"{one.region}-{letter}"
        for one in published(machine, "spot")
        for letter in one.zones
        if region in (None, one.region)
    ]
    if not zones:
        raise CommandError(
            f"--live: no zone with {machine} on Spot is known{f' in {region}' if region else ''}; try another --region"
        )
    project = place.project or os.environ.get("GOOGLE_CLOUD_PROJECT", "")
    if not project:
        raise CommandError("--live requires a project; pass --project PROJECT, or set GOOGLE_CLOUD_PROJECT")
    require_google_packages()
    from fleet.doctor.advice import ask_zones

    return ask_zones(project, machine, zones, answer.machines)


def _with_losses(question: PlanQuestion, zones: Sequence[Advice]) -> PlanQuestion:
    """The question with the preemptions of the likeliest zone of its region as loss rate, where none was given."""
    in_region = [one for one in zones if one.zone.startswith(f"{question.region}-") and one.preempted is not None]
    if question.notices_per_node_day is not None or question.spares is not None or not in_region:
        return question
    zone, rate = in_region[0].zone, round(in_region[0].preempted or 0, 2)
    # Assumed: Google publishes shares of the machines that stopped, and no rate. Machines that ran on are not among them, so of all that
    # ran that day a smaller share was preempted; ones that ran for less than the day are, and would have been for more.
    note = (
        f"Spares are for {rate:g} losses per node and day: of the Spot machines that stopped on a day in {zone}, Google preempted "
        f"{100 * rate:.0f} %. That is a share, not a rate; state your own with --loss-per-node-day."
    )
    return replace(question, notices_per_node_day=rate, notes=(*question.notes, note))


def _check_options(asked: Asked, wanted: Wanted, place: Place) -> None:
    """Raises CommandError for options that would do nothing."""
    writes = wanted.write is not None
    if asked.machine == ANY_MACHINE:
        for option, there in _of_one_machine(asked, wanted).items():
            if there:
                raise CommandError(f"{option} cannot be combined with --machine any; name one machine")
    if wanted.live and (asked.machine in (None, ANY_MACHINE) or asked.capacity not in (None, "spot")):
        raise CommandError("--live requires --machine TYPE, and Spot: it asks about one machine's zones")
    for option in ("--force",) * wanted.force + place.given():
        if not writes:
            raise CommandError(f"{option} requires --write")


def _of_one_machine(asked: Asked, wanted: Wanted) -> Mapping[str, bool]:
    """The options that need one machine, and whether they are given. Without them and --machine, every machine is compared."""
    return {
        "--write": wanted.write is not None,
        "--usd-per-node-hour": asked.usd_per_node_hour is not None,
        f"--capacity {asked.capacity}": _is_unlisted(asked),
    }


def _is_unlisted(asked: Asked) -> bool:
    """Whether the capacity is of no price list, such as a reservation."""
    from facts.prices import MODES

    return asked.capacity not in (None, *MODES)


def _anywhere(asked: Asked, formats: Documents) -> int:
    """Compare machines for one goal."""
    from fleet.plan.anywhere import market
    from fleet.plan.report.market import outline

    found = market(asked)
    _deliver(outline(found), formats)
    return CLEAN if found.offers else FINDINGS


def _recommended(asked: Asked, region: str, place: Place) -> tuple[Asked, str, tuple[str, ...]]:
    """The machine, capacity and region that a comparison recommends, and a note; unchanged where there is no price to compare."""
    from fleet.plan.anywhere import recommended

    if asked.usd_per_node_hour is not None or _is_unlisted(asked):
        return asked, region, ()
    offer = recommended(replace(asked, region=region if asked.region or place.zone else None), place.zone)
    if offer is None:
        return asked, region, ()
    note = (
        f"Machine, capacity and region are those that `fleet plan` without --write recommends: {offer.machine.type}, "
        f"{offer.capacity} in {offer.price.region}. Choose others with --machine, --capacity and --region."
    )
    return replace(asked, machine=offer.machine.type, capacity=offer.capacity), offer.price.region, (note,)


def _region(region: str | None, zone: str | None, *, write: bool) -> str:
    """The region of the prices: with --write, that of the stack."""
    from fleet.plan.question.goals import DEFAULT_REGION

    of_zone = (zone.rpartition("-")[0] if zone else region or DEFAULT_REGION) if write else None
    if region is not None and region not in (known := regions()):
        raise CommandError(f"--region {region} is not a region; {hint(region, sorted(known))}")
    if region and of_zone and region != of_zone:
        raise CommandError(
            f"--region {region}: the stack file would be for {of_zone}; pass --zone with a zone of {region}"
        )
    return region or of_zone or DEFAULT_REGION


def _impossible(error: PlanImpossibleError, question: PlanQuestion, asked: Asked, formats: Documents) -> int:
    from fleet.plan.anywhere import beside
    from fleet.plan.report.outline import format_beside, impossible

    others = beside(asked, question)
    if "json" in formats:
        show(impossible(error, question, others), "json", formats["json"])
    if formats.keys() != {"json"}:
        ways = "".join(f"  {way}\n" for way in format_beside(others))
        sys.stderr.write(
            f"fleet: no fleet of {question.machine.type} reaches this goal: {error.why}\n  nearest: {error.nearest}\n{ways}"
        )
    return FINDINGS


def _print(
    answer: Plan, formats: Documents, written: Sequence[str], commands: Sequence[str], zones: Sequence[Advice]
) -> None:
    from fleet.plan.report.outline import outline

    report = outline(answer, written=written, commands=commands)
    if zones:
        from fleet.doctor.advice import section
        from fleet.plan.report.document import camel_case

        report = replace(
            report,
            body=(section(zones, answer.question.machine.type), *report.body),
            data={**report.data, "spotZones": [camel_case(asdict(one)) for one in zones]},
        )
    _deliver(report, formats)
    if written and formats.get("text", ...) is not None:
        sys.stderr.write(f"fleet: {' and '.join(written)} written\n")


def _deliver(report: Outline, formats: Documents) -> None:
    """Write a report in each format, and print the files' paths if stdout is otherwise unused."""
    for format_, file in formats.items():
        show(report, format_, file)
        if file is not None and None not in formats.values():
            sys.stdout.write(f"{file}\n")
