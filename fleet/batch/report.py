"""The plan of a batch, and what is wrong with its file, as outlines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts.cost import format_indication
from facts.finding import Finding
from facts.texts import plural
from fleet.plan.words import CAPACITIES, format_nodes
from fleet.report.outline import Findings, Next, Number, Outline, Prose, Section, Tiles, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_number, format_usd

if TYPE_CHECKING:
    from fleet.batch.planning import Answer, Load, Option
    from fleet.batch.scan import Scan

_MOST_OPTIONS: Final = 3
"""Machines that are shown for each capacity."""
_LEAST_VOCABULARY: Final = 0.9
"""Share of a model's vocabulary below which a tokenizer is probably another's. Assumed: models pad theirs by less."""
_COUNTED: Final = (
    "Tokens of texts are exact. A chat template is not rendered: it adds 2 to 6 tokens a message, up to 100 a request and up to 400 for "
    "tools (assumed), which is part of every interval."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was counted, and with what."""

    file: Path
    served: str | None
    """Name under which the planned servers know the model; None if that is not known."""
    tokenizer: str
    tokens: int
    """Entries of the tokenizer."""
    vocabulary: int
    """Entries of the model."""
    seed: int
    options: tuple[str, ...] | None
    """Options of `fleet plan` that chose model and engine; None for those of a stack."""


def refused(file: Path, scan: Scan, *, kind: str = "batch plan", otherwise: str = "nothing was planned") -> Outline:
    """What is wrong with the file: the first bad lines, and how many there are."""
    more = scan.bad - len(scan.findings)
    return Outline(
        title=file.name,
        kind=kind,
        verdict=f"{plural(scan.bad, 'bad line')}; {otherwise}",
        tone="bad",
        head=some(Findings(tuple(scan.findings)), Prose(f"{plural(more, 'more bad line')}", "bad") if more else None),
        data={"file": str(file), "badLines": scan.bad},
    )


def outline(
    source: Source, load: Load, answer: Answer, *, deadline: str | None, max_usd: float | None, smallest: Answer | None
) -> Outline:
    """The plan. `smallest`: without the deadline, where nothing keeps deadline and ceiling."""
    best, scan = answer.best, load.scan
    notes = tuple(_notes(source, load))
    return Outline(
        title=f"{source.file.name}: {plural(scan.documents, 'document')}, {load.mean_input:,} tokens in and {load.output_tokens:,} out",
        kind=f"batch plan, {best.plan.label}" if best else "batch plan",
        verdict=_verdict(best) if best else f"no fleet reaches this goal: {_limits(deadline, max_usd)}",
        tone="strong" if best else "bad",
        head=some(
            Tiles(tuple(_numbers(load, best))),
            None if best else _out_of_reach(answer, smallest, deadline, max_usd),
            Findings(notes) if notes else None,
        ),
        body=some(
            Section(title="Machines and capacities", body=(_table(answer),)) if answer.options else None,
            Section(title="How the tokens were counted", body=tuple(map(Prose, _method(source, load)))),
            Next(_command(source, best, load, deadline), "for the whole plan; with --write STACK as a stack file")
            if best and source.options is not None
            else None,
        ),
        footer=(
            "Planned offline: nothing was measured on your fleet. The model and its errors: `docs/planner-model.md`.",
        ),
        data=_document(source, load, answer),
    )


def _limits(deadline: str | None, max_usd: float | None) -> str:
    both = [f"a deadline of {deadline}"] * (deadline is not None) + [f"a ceiling of {format_usd(max_usd or 0)}"] * (
        max_usd is not None
    )
    return " and ".join(both) or "the whole batch"


def _verdict(option: Option) -> str:
    plan = option.plan
    nodes = format_nodes(plan.nodes, plan.question.machine, plan.gpus)
    duration = format_duration(3600 * option.run.total_hours)
    return f"{nodes}, {CAPACITIES[option.capacity]} in {plan.question.region}: {duration}, {_usd(option)}"


def _usd(option: Option) -> str:
    if option.run.usd is None or option.usd is None:
        return "an unknown price"
    least = "at least " if option.plan.money.at_least or option.is_bound else ""
    return f"{least}{format_usd(option.run.usd)} ({format_usd(option.usd[0])} to {format_usd(option.usd[1])})"


def _hours(option: Option) -> str:
    return " to ".join(dict.fromkeys(format_duration(3600 * hours) for hours in option.hours))


def _numbers(load: Load, best: Option | None) -> Iterator[Number]:
    scan, tokens = load.scan, load.scan.input_tokens
    yield Number(
        name="tokens in",
        now=format_number(load.mean_input * scan.documents),
        more=f"a document {tokens.low:,.0f} to {tokens.high:,.0f}; the longest {load.longest_input:,}",
    )
    limits = "the lines' limits: answers are shorter or as long" if load.is_upper_end else "--output-tokens"
    yield Number(
        name="tokens out",
        now=format_number(load.output_tokens * scan.documents),
        more=f"a document {load.output_tokens:,}, {limits}; the longest {load.longest_output:,}",
    )
    if best is None:
        return
    least = ", at least" if best.plan.money.at_least else ""
    yield Number(name="duration", now=format_duration(3600 * best.run.total_hours), more=_hours(best))
    if best.run.usd is not None and best.usd is not None:
        yield Number(
            name=f"the whole batch{least}",
            now=format_usd(best.run.usd),
            more=f"{format_usd(best.usd[0])} to {format_usd(best.usd[1])}",
        )
        if best.run.usd_per_million is not None:
            # Nodes are paid for their own part of the start.
            started = min(best.run.start_hours, best.plan.restart.likely_seconds / 3600)
            start = "; most of it pays the start" if started > best.run.work_hours else ""
            yield Number(
                name=f"a million tokens{least}",
                now=format_usd(best.run.usd_per_million.total_usd),
                more=f"{format_usd(best.run.usd_per_million.output_usd)} over output tokens alone{start}",
            )
    near = format_indication(best.plan.money.bill.residual_items)
    yield Number(
        name=f"afterwards{least}",
        now=format_usd(best.run.usd_per_hour_after),
        more=f"an hour at 0 replicas, until the stack is destroyed{f'; unknown prices: {near}' if near else ''}",
    )


def _notes(source: Source, load: Load) -> Iterator[Finding]:
    others = {name: count for name, count in load.scan.models.items() if name != source.served}
    if others and source.served is not None:
        asking = sum(others.values())
        yield Finding(
            id="other-model",
            subject="body.model",
            severity="warning",
            found=f"{plural(asking, 'line')} {'asks' if asking == 1 else 'ask'} for {', '.join(sorted(others))}",
            allowed=source.served,
            why="a server answers 404 to a model that it does not serve, so `fleet batch run` refuses such a line; this plan counts "
            "it as the served one's",
            write=f'"model": "{source.served}", or leave it out for `fleet batch run`, which adds it',
        )
    if source.tokens > source.vocabulary or source.tokens < _LEAST_VOCABULARY * source.vocabulary:
        yield Finding(
            id="other-tokenizer",
            subject="--tokenizer",
            severity="warning",
            found=f"{source.tokens:,} entries",
            allowed=f"about {source.vocabulary:,}, as the model has",
            why="another model's tokenizer counts other tokens",
            write="the tokenizer.json of the model's own repository",
        )


def _shown(answer: Answer) -> Sequence[Option]:
    shown: list[Option] = []
    for option in answer.options:
        if sum(one.capacity == option.capacity for one in shown) < _MOST_OPTIONS:
            shown.append(option)
    return shown


def _table(answer: Answer) -> Table:
    shown, best = _shown(answer), answer.best
    return Table(
        id="options",
        caption="The cheapest machines for each capacity, cheapest first",
        columns=(
            *texts("machine", "capacity"),
            *numbers("nodes", "hours", "USD", "at most"),
            *texts("keeps the limits"),
        ),
        rows=tuple(tuple(map(Cell, _row(option))) for option in shown),
        chosen=shown.index(best) if best is not None and best in shown else None,
    )


def _row(option: Option) -> Iterator[str]:
    plan, run = option.plan, option.run
    least = "≥ " if option.is_bound else ""
    yield plan.question.machine.type
    yield f"{option.capacity} {plan.question.region}"
    yield f"{least}{plan.nodes:,}"
    yield f"{least}{run.total_hours:,.1f}"
    yield "unknown" if run.usd is None else f"{least}{run.usd:,.2f}"
    yield "unknown" if option.usd is None else f"{least}{option.usd[1]:,.2f}"
    yield "; ".join(option.misses) or _kept(option)


def _kept(option: Option) -> str:
    """The deadline is the planner's, with its headroom; the interval's high end may be later."""
    deadline, slowest = option.run.deadline_hours, option.hours[1]
    late = deadline is not None and slowest > deadline
    kept = f"likely; at worst {format_duration(3600 * slowest)}" if late else "yes"
    return (
        kept
        if option.usd is not None
        else f"deadline: {kept}; its price is unknown"
        if deadline is not None
        else "its price is unknown"
    )


def _out_of_reach(answer: Answer, smallest: Answer | None, deadline: str | None, max_usd: float | None) -> Finding:
    """Why nothing keeps the limits, and the nearest limits that something keeps."""
    found = [
        f"{option.plan.question.machine.type}, {option.capacity}: {'; '.join(option.misses)}"
        for option in answer.options
    ]
    found += [f"{', '.join(one.machines)}: {one.why}" for one in answer.refused]
    return Finding(
        id="goal-out-of-reach",
        subject=_limits(deadline, max_usd),
        found="; ".join(found[:_MOST_OPTIONS]),
        write="; or ".join(_cures(answer, smallest, deadline, max_usd)),
    )


def _cures(answer: Answer, smallest: Answer | None, deadline: str | None, max_usd: float | None) -> Iterator[str]:
    if max_usd is not None and (priced := [option for option in answer.options if option.usd is not None]):
        least = min(priced, key=lambda option: option.usd[1] if option.usd else 0.0)
        if least.usd is not None and least.usd[1] > max_usd:
            yield f"--max-usd {ceil(100 * least.usd[1]) / 100:.2f} ({_verdict_of(least)})"
    if deadline is not None and smallest is not None and smallest.best is not None:
        yield f"--deadline {ceil(60 * smallest.best.run.total_hours)}m ({_verdict_of(smallest.best)})"
    if not answer.options:
        for one in answer.refused[:_MOST_OPTIONS]:
            yield f"{', '.join(one.machines)}: {one.nearest or 'other options'}"


def _verdict_of(option: Option) -> str:
    plan = option.plan
    nodes = format_nodes(plan.nodes, plan.question.machine, plan.gpus)
    return f"{nodes}, {option.capacity}: {format_duration(3600 * option.run.total_hours)}, {_usd(option)}"


def _method(source: Source, load: Load) -> Iterator[str]:
    scan = load.scan
    counted = f"with the tokenizer {source.tokenizer}"
    if scan.counted == scan.documents:
        yield f"Every prompt was counted {counted}."
    else:
        yield (
            f"{scan.counted:,} of {scan.documents:,} prompts were counted {counted}: those that may not fit the context, the longest, "
            f"and a random sample of the others (--seed {source.seed}). The interval is the sample's mean plus and minus 1.96 standard "
            "errors: 95 % for a mean that is normally distributed."
        )
    yield _COUNTED


def _command(source: Source, option: Option, load: Load, deadline: str | None) -> str:
    question = option.plan.question
    words = [
        *("fleet", "plan", "--documents", str(load.scan.documents), "--input-tokens", str(load.mean_input)),
        *("--output-tokens", str(load.output_tokens), "--profile", question.profile.name),
        *("--machine", question.machine.type, "--capacity", question.capacity, "--region", question.region),
        *(("--deadline", deadline) if deadline else ()),
        *(source.options or ()),
    ]
    return shlex.join(words)


def _document(source: Source, load: Load, answer: Answer) -> dict[str, Any]:
    scan = load.scan
    return {
        "file": str(source.file),
        "documents": scan.documents,
        "counted": scan.counted,
        "inputTokens": {
            "mean": load.mean_input,
            "low": scan.input_tokens.low,
            "high": scan.input_tokens.high,
            "longest": load.longest_input,
        },
        "outputTokens": {"mean": load.output_tokens, "longest": load.longest_output, "isUpperEnd": load.is_upper_end},
        "chosen": None if answer.best is None else answer.options.index(answer.best),
        "options": [_option(option) for option in answer.options],
        "refused": [{"machines": list(one.machines), "why": one.why, "nearest": one.nearest} for one in answer.refused],
    }


def _option(option: Option) -> dict[str, Any]:
    plan, run = option.plan, option.run
    return {
        "machine": plan.question.machine.type,
        "capacity": option.capacity,
        "region": plan.question.region,
        "nodes": plan.nodes,
        "hours": {"value": run.total_hours, "low": option.hours[0], "high": option.hours[1]},
        "usd": None if option.usd is None else {"value": run.usd, "low": option.usd[0], "high": option.usd[1]},
        "usdPerMillion": None if run.usd_per_million is None else run.usd_per_million.total_usd,
        "atLeast": plan.money.at_least or option.is_bound,
        "label": plan.label,
        "misses": list(option.misses),
    }
