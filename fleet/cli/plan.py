"""`fleet plan`: from a goal to a fleet, without a cloud."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from facts.regions import regions
from facts.texts import hint
from fleet.cli.documents import documents_of, format_option, show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Deadline, Model
from fleet.cli.project import find_root
from fleet.plan.asked import ANY_MACHINE, Asked, Capacity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion
    from fleet.report.outline import Outline


def plan(
    users: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: concurrent users, one request each at a time.")
    ] = None,
    requests_per_second: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: arrival rate, whatever the fleet answers.")
    ] = None,
    tokens_per_second: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: input and output tokens a second.")
    ] = None,
    documents: Annotated[int | None, typer.Option(metavar="N", min=1, help="Goal: a batch.")] = None,
    usd_per_hour: Annotated[
        float | None, typer.Option(metavar="N", help="Instead of a goal: the largest fleet within this budget.")
    ] = None,
    input_tokens: Annotated[
        int | None,
        typer.Option(
            "--input-tokens",
            "--tokens-per-document",
            metavar="N",
            min=1,
            help="Tokens of a request, or of a document, instruction included.",
        ),
    ] = None,
    output_tokens: Annotated[int | None, typer.Option(metavar="N", min=1, help="Tokens of an answer.")] = None,
    deadline: Deadline = None,
    ttft_p99_ms: Annotated[
        float | None, typer.Option(metavar="MS", help="Limit on the p99 time to first token.")
    ] = None,
    tpot_ms: Annotated[
        float | None, typer.Option(metavar="MS", help="Limit on the mean time per output token.")
    ] = None,
    model: Model = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Engine profile. Default: record, serve-chat with --write, or by the lengths."
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(metavar=f"TYPE|{ANY_MACHINE}", help="Machine type. Default: any, compared by price."),
    ] = None,
    capacity: Annotated[
        Capacity | None, typer.Option(help="Purchase option. Default: spot; all with --machine any.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(metavar="REGION|ZONE", help="Region of the list prices, or zone of the stack file."),
    ] = None,
    usd_per_node_hour: Annotated[
        float | None, typer.Option(metavar="N", min=0.01, help="Your price of a node-hour.")
    ] = None,
    write: Annotated[str | None, typer.Option(metavar="STACK", help="Write the plan as Pulumi.STACK.yaml.")] = None,
    format_: Annotated[list[str] | None, format_option("text", "json")] = None,
) -> int:
    """Size a fleet for a goal: nodes, price, latency, start-up time, each with its uncertainty.

    Needs no cloud, no credentials and no stack. Exits with 1 if no fleet reaches the goal, and shows the nearest one.
    """
    formats, zone = documents_of(format_), None
    if region is not None and region not in (known := regions()):
        region, zone = region.rpartition("-")[0], region
        if region not in known:
            raise CommandError(f"--region {zone} is neither a region nor a zone; {hint(zone, sorted(known))}")
    asked = Asked(
        users=users,
        requests_per_second=requests_per_second,
        tokens_per_second=tokens_per_second,
        documents=documents,
        usd_per_hour=usd_per_hour,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        deadline=deadline,
        ttft_p99_ms=ttft_p99_ms,
        tpot_ms=tpot_ms,
        model=model,
        profile=profile,
        machine=None if machine == ANY_MACHINE else machine,
        capacity=capacity,
        region=region,
        usd_per_node_hour=usd_per_node_hour,
    )
    # What has no list price cannot be compared by it.
    is_compared = asked.machine is None and usd_per_node_hour is None and not _is_unlisted(capacity)
    if machine == ANY_MACHINE and not is_compared:
        raise CommandError("--machine any compares list prices; name one machine for a price or a capacity without one")
    if is_compared and write is None:
        from fleet.plan.anywhere import market
        from fleet.plan.report.market import outline as outline_of

        found = market(asked)
        _deliver(outline_of(found), formats)
        return CLEAN if found.offers else FINDINGS
    note = ""
    if is_compared:
        asked, note = _recommended(asked, zone)
    return _of_one_machine(asked, zone, write, formats, note)


def _is_unlisted(capacity: Capacity | None) -> bool:
    """Whether the capacity is of no price list, such as a reservation."""
    from facts.prices import MODES

    return capacity not in (None, *MODES)


def _recommended(asked: Asked, zone: str | None) -> tuple[Asked, str]:
    """The machine, capacity and region that a comparison recommends, and a note; unchanged where it recommends none."""
    from fleet.plan.anywhere import market

    offer = market(asked).recommended(zone)
    if offer is None:
        return asked, ""
    chosen = replace(asked, machine=offer.machine.type, capacity=offer.capacity, region=offer.price.region)
    return (
        chosen,
        "Machine, capacity and region are the cheapest. Choose others with --machine, --capacity and --region.",
    )


def _of_one_machine(
    asked: Asked, zone: str | None, write: str | None, formats: Mapping[str, Path | None], note: str
) -> int:
    from fleet.plan.planning import plan as plan_of
    from fleet.plan.question.asking import question_of
    from fleet.plan.question.goals import PlanImpossibleError
    from fleet.plan.report.outline import outline

    question = question_of(asked, for_stack=write is not None)
    question = replace(question, notes=(*question.notes, *([note] if note else [])))
    try:
        answer = plan_of(question)
    except PlanImpossibleError as error:
        return _impossible(error, question, asked, formats)
    if write is None:
        _deliver(outline(answer), formats)
        return CLEAN
    from fleet.plan.stack_file import Place, next_commands, write_stack

    folder = find_root(None)
    files = write_stack(folder, write, answer, Place(zone=zone), config=asked.model_file)
    written = [str(file.relative_to(folder)) for file in files]
    _deliver(outline(answer, written=written, commands=tuple(next_commands(folder, write))), formats)
    if formats.get("text", ...) is not None:
        sys.stderr.write(f"fleet: {' and '.join(written)} written\n")
    return CLEAN


def _impossible(
    error: PlanImpossibleError, question: PlanQuestion, asked: Asked, formats: Mapping[str, Path | None]
) -> int:
    from fleet.plan.anywhere import beside
    from fleet.plan.report.outline import format_beside, impossible

    other = beside(asked, question)
    if "json" in formats:
        show(impossible(error, question, other), "json", formats["json"])
    if formats.keys() != {"json"}:
        ways = "".join(f"  or: {way}\n" for way in format_beside(other))
        sys.stderr.write(
            f"fleet: no fleet of {question.machine.type} reaches this goal: {error.why}\n  nearest: {error.nearest}\n{ways}"
        )
    return FINDINGS


def _deliver(report: Outline, formats: Mapping[str, Path | None]) -> None:
    """Write a report in each format, and print the files' paths if stdout is otherwise unused."""
    for format_, file in formats.items():
        show(report, format_, file)
        if file is not None and None not in formats.values():
            sys.stdout.write(f"{file}\n")
