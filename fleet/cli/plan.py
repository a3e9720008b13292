"""`fleet plan`: from a goal to a fleet, without a cloud."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fleet.cli.completion import choices, machines, models, profiles
from fleet.cli.documents import Documents, deliver, documents_of, format_option
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Root, finite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.plan.plan import Alternative, Plan
    from fleet.plan.question.asking import Asked
    from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion
    from fleet.report.terminal import Paper

_Capacity = Literal["on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "ladder"]
ANY_MACHINE = "any"
_Start = Literal["nothing", "cluster", "weights"]


def plan(
    tokens_per_second: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-second",
            metavar="N",
            help="Goal: input and output tokens a second.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        float | None,
        typer.Option(
            "--users",
            metavar="N",
            help="Goal: concurrent users, one request each at a time.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    requests_per_second: Annotated[
        float | None,
        typer.Option(
            "--requests-per-second",
            metavar="N",
            help="Goal: open-loop arrival rate.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    usd_per_hour: Annotated[
        float | None,
        typer.Option(
            "--usd-per-hour",
            metavar="N",
            help="Goal: the largest fleet within this budget.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    documents: Annotated[
        int | None,
        typer.Option(
            "--documents",
            metavar="N",
            min=1,
            help="Goal: a batch, with --tokens-per-document and --output-tokens.",
            show_default=False,
        ),
    ] = None,
    tokens_per_document: Annotated[
        int | None,
        typer.Option(
            "--tokens-per-document", metavar="N", min=1, help="Mean length, prompt included.", show_default=False
        ),
    ] = None,
    longest_document: Annotated[
        int | None,
        typer.Option(
            "--longest-document", metavar="N", min=1, help="Longest document. Default: the mean.", show_default=False
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option("--output-tokens", metavar="N", min=1, help="Output tokens per document.", show_default=False),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="8h",
            help="Time to finish the batch, start-up included; also 90m, 1.5d.",
            show_default=False,
        ),
    ] = None,
    isl: Annotated[
        int | None, typer.Option("--isl", metavar="N", min=1, help="Input tokens of a request.", show_default=False)
    ] = None,
    osl: Annotated[
        int | None, typer.Option("--osl", metavar="N", min=1, help="Output tokens of a request.", show_default=False)
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="NAME", help="Named lengths. Default: article.", show_default=False),
    ] = None,
    ttft_p99_ms: Annotated[
        float | None,
        typer.Option(
            "--ttft-p99-ms",
            metavar="MS",
            help="Limit on the p99 time to first token.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    tpot_ms: Annotated[
        float | None,
        typer.Option(
            "--tpot-ms",
            metavar="MS",
            help="Limit on the mean time per output token.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            autocompletion=choices(profiles),
            help="Engine profile. Default: record, or what the lengths need.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="TYPE|any",
            autocompletion=choices(lambda: (*machines(), ANY_MACHINE)),
            help="Machine type; any compares them by price. Default: a4-highgpu-8g.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="ID",
            autocompletion=choices(models),
            help="Model of the catalogue, or your own model's config.json. Default: the profile's.",
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        _Capacity | None,
        typer.Option("--capacity", help="Purchase option. Default: spot; all with --machine any.", show_default=False),
    ] = None,
    gateway: Annotated[
        bool, typer.Option("--gateway/--no-gateway", help="Route through the Inference Gateway.")
    ] = False,
    headroom: Annotated[
        float,
        typer.Option("--headroom", min=0.0, max=0.95, help="Share of full load to leave free."),
    ] = 0.15,
    spares: Annotated[
        int | None,
        typer.Option("--spares", metavar="N", min=0, help="Spare machines.", show_default=False),
    ] = None,
    loss_per_node_day: Annotated[
        float | None,
        typer.Option(
            "--loss-per-node-day",
            metavar="N",
            min=0.0,
            help="Spot preemptions per node and day; sizes the spares.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option("--confidence", min=0.5, max=0.9999, help="Share of time with enough nodes."),
    ] = 0.95,
    starts_from: Annotated[_Start, typer.Option("--starts-from", help="What exists already.")] = "nothing",
    compile_cache: Annotated[
        bool, typer.Option("--compile-cache", help="Keep compiled kernels, so later nodes start faster.")
    ] = False,
    hours_per_week: Annotated[
        float | None,
        typer.Option(
            "--hours-per-week", metavar="N", min=0.1, max=168.0, help="Hours that the fleet runs.", show_default=False
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            metavar="REGION",
            help="Region of the list prices. Default: that of --zone, or europe-west4.",
            show_default=False,
        ),
    ] = None,
    usd_per_node_hour: Annotated[
        float | None,
        typer.Option(
            "--usd-per-node-hour",
            metavar="N",
            min=0.01,
            help="Your price of a node-hour.",
            callback=finite,
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare purchase options, with and without the gateway.")
    ] = False,
    day: Annotated[
        bool,
        typer.Option("--day", help="Simulate a week of load with the goal as its peak."),
    ] = False,
    # Not the shared option, which also reads PULUMI_STACK: that would change what a goal means.
    stack: Annotated[
        str | None,
        typer.Option("--stack", metavar="NAME", help="With --day: the fleet of Pulumi.NAME.yaml.", show_default=False),
    ] = None,
    format_: Annotated[list[str] | None, format_option("text", "json", "html")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="Write the document to this file; with --format html or json.",
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("--write", metavar="STACK", help="Write the plan as Pulumi.STACK.yaml.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --write replace an existing file.")] = False,
    reservation: Annotated[
        str | None,
        typer.Option("--reservation", metavar="NAME", help="With --write: the reservation's name.", show_default=False),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="ID", help="With --write: Google Cloud project.", show_default=False),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            "--zone",
            metavar="ZONE",
            help="With --write: zone with the machine. Default: europe-west4-b, or one with a price.",
            show_default=False,
        ),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            "--revision", metavar="COMMIT", help="With --write and --model: the model's commit.", show_default=False
        ),
    ] = None,
    root: Root = None,
) -> int:
    """Size a fleet for a goal: nodes, price, latency, start-up time, each with its uncertainty.

    Needs no cloud, no credentials and no stack. Exits with 1 if no fleet reaches the goal, and shows the nearest one.
    """
    from fleet.plan.question.asking import Asked, AskingError, question_of

    anywhere = machine == ANY_MACHINE
    formats = documents_of(format_)
    if out is not None:
        if "text" in formats or [*formats.values()] != [None]:
            raise CommandError("--out needs exactly one of --format html and --format json, without =FILE")
        formats = dict.fromkeys(formats, out)
    _check_options(
        write=write,
        anywhere=anywhere,
        compare=compare,
        day=day,
        stack=stack is not None,
        documents=documents is not None,
        formats=formats,
        of_write={
            "--force": force,
            "--reservation": reservation,
            "--project": project,
            "--zone": zone,
            "--revision": revision,
        },
    )
    try:
        asked = Asked(
            tokens_per_second=tokens_per_second,
            users=users,
            requests_per_second=requests_per_second,
            usd_per_hour=usd_per_hour,
            documents=documents,
            tokens_per_document=tokens_per_document,
            longest_document=longest_document,
            output_tokens=output_tokens,
            deadline=deadline,
            workload=workload,
            isl=isl,
            osl=osl,
            ttft_p99_ms=ttft_p99_ms,
            tpot_ms=tpot_ms,
            profile=profile,
            machine=None if anywhere else machine,
            model=model,
            capacity=capacity or "spot",
            gateway=gateway,
            load_share=1 - headroom,
            spares=spares,
            loss_per_node_day=loss_per_node_day,
            confidence=confidence,
            hours_per_week=hours_per_week,
            region=_region(region, zone, write=write is not None),
            usd_per_node_hour=usd_per_node_hour,
            starts_from=starts_from,
            compile_cache=compile_cache,
        )
        if anywhere:
            return _anywhere(asked, capacity, region, formats)
        if day and stack is not None:
            return _day_of_stack(stack, asked, formats, root)
        question = question_of(asked)
    except AskingError as error:
        raise CommandError(str(error)) from None
    from fleet.plan.planning import compare as alternatives_of
    from fleet.plan.planning import plan as plan_of
    from fleet.plan.question.goals import PlanImpossibleError

    try:
        answer = plan_of(question)
    except PlanImpossibleError as error:
        return _impossible(error, question, formats)
    written = None
    if write is not None:
        from fleet.cli.project import find_root
        from fleet.plan.stack_file import write_stack

        write_stack(
            find_root(root),
            write,
            answer,
            reservation=reservation,
            project=project,
            revision=revision,
            zone=zone or _zone(answer),
            replace=force,
        )
        written = write
    _print(answer, alternatives_of(question) if compare else (), formats, written, day=day)
    return CLEAN


def _day_of_stack(stack: str, asked: Asked, formats: Documents, root: Path | None) -> int:
    """Simulate a week of a stack's fleet."""
    from dataclasses import replace

    from fleet.plan.question.asking import Asked as Options

    if replace(asked, requests_per_second=None) != Options() or "html" in formats:
        raise CommandError(
            "--stack can only be combined with --day, --requests-per-second (the peak) and --format text or json"
        )
    peak = asked.requests_per_second
    if peak is not None and peak <= 0:
        raise CommandError(f"--requests-per-second {peak:g}: must be above 0")
    from fleet.cli.project import find_root, require_stack
    from fleet.plan.day.comparison import comparisons, subject_of_stack
    from fleet.plan.report.day import day_document, print_day
    from settings.load import parse
    from settings.stack_file import read

    folder = find_root(root)
    name = require_stack(folder, stack)
    content = read(folder, name)
    from fleet.plan.question.goals import PlanImpossibleError

    try:
        subject = subject_of_stack(parse(name, content.config, content.unopened), peak)
        found = comparisons(subject)
    except (PlanImpossibleError, LookupError, ValueError) as error:
        raise CommandError(f"Pulumi.{name}.yaml: {error}") from None
    for format_, path in formats.items():
        if format_ == "json":
            from fleet.plan.report.json_document import json_text

            _deliver(json_text({"stack": name, "day": day_document(subject, found)}), path, formats)
        else:
            _deliver(lambda paper: print_day(paper, subject, found), path, formats)
    return CLEAN


def _check_options(
    *,
    write: str | None,
    anywhere: bool,
    compare: bool,
    day: bool,
    stack: bool,
    documents: bool,
    formats: Documents,
    of_write: Mapping[str, object],
) -> None:
    """Raises CommandError for options that would do nothing."""
    if day and (compare or write is not None or documents):
        raise CommandError("--day cannot be combined with --compare, --write or --documents")
    if stack and not day:
        raise CommandError("--stack requires --day")
    if anywhere:
        given = {"--write": write is not None, "--compare": compare, "--format html": "html" in formats, "--day": day}
        for option, there in given.items():
            if there:
                raise CommandError(f"{option} cannot be combined with --machine any; name one machine")
    if write is not None and compare:
        raise CommandError("--write and --compare cannot be combined")
    for option, value in of_write.items():
        if value and write is None:
            raise CommandError(f"{option} requires --write")


def _anywhere(asked: Asked, capacity: _Capacity | None, region: str | None, formats: Documents) -> int:
    """Compare machines for one goal."""
    from fleet.plan.anywhere import market

    _region(region, None, write=False)
    if asked.usd_per_node_hour is not None:
        raise CommandError("--usd-per-node-hour cannot be combined with --machine any; name one machine")
    found = market(asked, capacity=capacity, region=region)
    for format_, file in formats.items():
        from fleet.plan.report.market import market_json, print_market

        _deliver(market_json(found) if format_ == "json" else lambda paper: print_market(paper, found), file, formats)
    return CLEAN if found.offers else FINDINGS


def _region(region: str | None, zone: str | None, *, write: bool) -> str:
    """The region of the prices: with --write, that of the stack."""
    from fleet.plan.question.goals import DEFAULT_REGION

    of_zone = (zone.rpartition("-")[0] if zone else region or DEFAULT_REGION) if write else None
    if region is not None and not re.fullmatch(r"[a-z]+-[a-z]+\d+", region):
        raise CommandError(f"--region {region} is not a region such as us-central1")
    if region and of_zone and region != of_zone:
        raise CommandError(
            f"--region {region}: the stack file would be for {of_zone}; pass --zone with a zone of {region}"
        )
    return region or of_zone or DEFAULT_REGION


def _zone(answer: Plan) -> str:
    """A zone of the plan's region that has the machine. Raises CommandError where none is known."""
    from facts import prices

    question = answer.question
    with_machine = [
        one for one in prices.published(question.machine.type) if one.region == question.region and one.zones
    ]
    if not with_machine:
        raise CommandError(f"no known zone of {question.region} has {question.machine.type}; pass --zone")
    return f"{question.region}-{with_machine[0].zones[0]}"


def _impossible(error: PlanImpossibleError, question: PlanQuestion, formats: Documents) -> int:
    if "json" in formats:
        from fleet.plan.report.json_document import impossible_json

        _deliver(impossible_json(error, question), formats["json"], formats)
    if formats.keys() != {"json"}:
        sys.stderr.write(f"fleet: no fleet reaches this goal: {error.why}\n  nearest: {error.nearest}\n")
    return FINDINGS


def _print(
    answer: Plan,
    alternatives: Sequence[Alternative],
    formats: Documents,
    written: str | None,
    *,
    day: bool,
) -> None:
    week = None
    if day:
        from fleet.plan.day.comparison import comparisons, subject_of_plan

        subject = subject_of_plan(answer)
        try:
            week = subject, comparisons(subject)
        except ValueError as error:
            raise CommandError(f"--day: {error}") from None
    for format_, file in formats.items():
        if format_ == "json":
            from fleet.plan.report.json_document import plan_json

            _deliver(plan_json(answer, alternatives, week), file, formats)
        elif format_ == "html":
            from fleet.plan.report.html import html_text

            _deliver(html_text(answer, alternatives, week), file, formats)
        else:
            _deliver(lambda paper: _print_text(paper, answer, alternatives, week, written), file, formats)
    if written is not None and formats.get("text", ...) is not None:
        sys.stderr.write(f"fleet: Pulumi.{written}.yaml written\n")


def _print_text(
    paper: Paper, answer: Plan, alternatives: Sequence[Alternative], week: Any, written: str | None
) -> None:
    if week is not None:
        from fleet.plan.report.day import print_day

        print_day(paper, *week)
        return
    from fleet.plan.report.text import print_comparison, print_plan

    if alternatives:
        print_comparison(paper, alternatives)
    else:
        print_plan(paper, answer, written=written)


def _deliver(document: str | Callable[[Paper], None], file: Path | None, formats: Documents) -> None:
    """Write a document, and print its path if stdout is otherwise unused."""
    deliver(document, file)
    if file is not None and None not in formats.values():
        sys.stdout.write(f"{file}\n")
