"""Checks of the parsers of reasoning and tool calls: each named once, registered in the release, and missing ones reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts import parsers
from facts.finding import Finding
from facts.models import CATALOGUE, part_for
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

# Run, with each release's parsers and a tokenizer of 256 bytes: 13 of 18 reasoning parsers of 0.18.1 (qwen3 too) raise an error, in the
# engine's startup; 14 of 42 of 0.33.0 (qwen3 not). 8 of 33 tool parsers of 0.18.1 raise one, in requests with tools; 9 of 58 of 0.33.0,
# in the API server's startup. Read: StructuredOutputManager.__init__ and OpenAIServing of 0.18.1, validate_parser_tokenizer of 0.33.0.
_EFFECTS: Final = {
    "reasoningParser": "With a wrong one vLLM does not start, or returns whole answers as reasoning with content null; without one, "
    "reasoning stays in the text",
    "toolCallParser": "With a wrong one vLLM does not start, or requests with tools fail, or calls stay in the text; without one, vLLM "
    "refuses tool_choice auto",
}
_OPTIONS: Final[dict[parsers.Kind, str]] = {"tools": "tool-call-parser", "reasoning": "reasoning-parser"}
# By its name: it leaves the reasoning of the same model in the text, with its tags (unverified).
_VARIANTS: Final = {"minimax_m2_append_think": "minimax_m2"}
_SOURCES: Final = {
    "reasoningParser": "its tags, such as <think>, are in the model's tokenizer.json",
    "toolCallParser": "it reads the form in which the model's chat template writes tool calls",
}


def parser_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with the model's parsers."""
    serving, engine = settings.serving, settings.serving.engine
    own, listed = settings.model, CATALOGUE.get(serving.model.id)
    chosen: tuple[tuple[str, str | None, str | None, str | None, parsers.Kind], ...] = (
        (
            "toolCallParser",
            engine.tool_call_parser,
            own.tool_call_parser if own else None,
            listed.tool_parser if listed else None,
            "tools",
        ),
        (
            "reasoningParser",
            engine.reasoning_parser,
            own.reasoning_parser if own else None,
            listed.reasoning_parser if listed else None,
            "reasoning",
        ),
    )
    for name, value, of_model, in_catalogue, kind in chosen:
        path = key(f"model.{name}" if value == of_model else f"server.engine.{name}")
        if of_model is not None and name in serving.overrides and value != of_model:
            yield Finding(
                id="parser-named-twice",
                subject=key(f"server.engine.{name}"),
                found=value,
                allowed=f"left out, or {of_model}, as in model.{name}",
                why=f"model.{name} is {of_model}, and a server has one parser",
                write=f"no {name} in server.engine, and the right parser in model.{name}",
            )
        unknown = tuple(unregistered(path, value, kind, engine.version))
        yield from unknown
        # A parser of a format that only some models have is for flags-of-another-architecture to judge.
        if (
            not unknown
            and value is not None
            and in_catalogue not in (None, _VARIANTS.get(value, value))
            and not part_for(_OPTIONS[kind], value)
        ):
            yield Finding(
                id="parser-of-another-model",
                subject=path,
                found=value,
                allowed=f"{in_catalogue}, the catalog's for {serving.model.id}",
                why=_EFFECTS[name],
                write=f"{name}: {in_catalogue}",
                severity="warning",
            )
    for name in serving.unnamed_parsers:
        yield Finding(
            id="model-without-parser",
            subject=key(f"model.{name}"),
            found=None,
            allowed="a parser of the release, or none",
            why=f"profile {serving.profile.name} has one for {serving.profile.model_id}, and the catalog does not list "
            f"{serving.model.id}. {_EFFECTS[name]}",
            write=f"{name}: the parser of its base model (`fleet models --format json`) or of its model card; {_SOURCES[name]}. "
            f"For none: server.engine.{name}: null",
            severity="note",
        )


def unregistered(subject: str, value: str | None, kind: parsers.Kind, version: str) -> Iterator[Finding]:
    """A parser that this release does not have."""
    known = parsers.registered(kind, version)
    if value is not None and known is not None and value not in known:
        yield Finding(
            id="parser-of-another-release",
            subject=subject,
            found=value,
            allowed=", ".join(sorted(known)),
            why=f"vLLM {version} does not have this parser and would not start",
            write=f"{subject.rpartition('.')[2]}: one of those above, or a release that has it",
        )
