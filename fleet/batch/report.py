"""What a file of documents holds, with the planner's report on it, and what is wrong with the file, as outlines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from facts.texts import plural
from fleet.batch.planning import Machines, OfStack
from fleet.plan.anywhere import market
from fleet.plan.asked import DEFAULT_HEADROOM
from fleet.plan.planning import plan
from fleet.plan.question.asking import question_of
from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion
from fleet.plan.report.market import outline as market_outline
from fleet.plan.report.outline import impossible
from fleet.plan.report.outline import outline as plan_outline
from fleet.report.outline import Findings, Number, Outline, Prose, Section, Tiles, some
from fleet.report.words import format_number

if TYPE_CHECKING:
    from fleet.batch.planning import Load
    from fleet.batch.scan import Scan
    from fleet.plan.asked import Asked

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


def outline(source: Source, load: Load, planned: Outline) -> Outline:
    """What was counted, and the planner's report on it."""
    scan, notes = load.scan, tuple(_notes(source, load))
    return Outline(
        title=f"{source.file.name}: {plural(scan.documents, 'document')}, {load.mean_input:,} tokens in and {load.output_tokens:,} out",
        kind=f"batch {planned.kind}",
        verdict=planned.verdict or "no fleet reaches this goal",
        tone=planned.tone,
        head=some(Tiles(tuple(_numbers(load))), Findings(notes) if notes else None),
        body=(
            Section(title="How the tokens were counted", body=tuple(map(Prose, _method(source, load)))),
            *planned.head,
            *planned.body,
        ),
        footer=(
            "Planned offline: nothing was measured on your fleet. The model and its errors: `docs/planner-model.md`.",
        ),
        data={**_counts(source, load), **planned.data},
    )


def planned_on(fleets: Machines | OfStack, load: Load) -> tuple[Outline, bool]:
    """The planner's report, and whether a fleet reaches the goal. Raises UserError for invalid options."""
    if isinstance(fleets, OfStack):
        return _planned(fleets.question(load), commands=(f"fleet batch run FILE --stack {fleets.name}",))
    asked = fleets.asked(load)
    if asked.machine is None:
        found = market(asked)
        return market_outline(found, command=lambda one: _command(asked, one.plan.question)), bool(found.offers)
    question = question_of(asked)
    choice = f"--machine {asked.machine} --capacity {question.capacity} --region {question.region}"
    return _planned(question, command=f"{_command(asked, question)} {choice}")


def _planned(question: PlanQuestion, *, command: str = "add", commands: Sequence[str] = ()) -> tuple[Outline, bool]:
    try:
        return plan_outline(plan(question), command=command, commands=commands), True
    except PlanImpossibleError as error:
        return impossible(error, question, None), False


def _command(asked: Asked, question: PlanQuestion) -> str:
    """The planner's command for the same load."""
    words = [
        *("fleet", "plan", "--documents", str(asked.documents), "--input-tokens", str(asked.input_tokens)),
        *("--output-tokens", str(asked.output_tokens), "--profile", question.profile.name),
        *(("--deadline", asked.deadline) if asked.deadline else ()),
        *(("--model", asked.model) if asked.model else ()),
        *(("--headroom", f"{asked.headroom:g}") if asked.headroom != DEFAULT_HEADROOM else ()),
    ]
    return shlex.join(words)


def _numbers(load: Load) -> Iterator[Number]:
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


def _counts(source: Source, load: Load) -> dict[str, Any]:
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
    }
