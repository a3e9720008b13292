"""Checks of the parsers of reasoning and tool calls: registered in the release, and missing ones reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts import parsers
from facts.finding import Finding
from facts.models import CATALOGUE, part_for
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_OPTIONS: Final[dict[parsers.Kind, str]] = {"tools": "tool-call-parser", "reasoning": "reasoning-parser"}
# By its name: it leaves the reasoning of the same model in the text, with its tags (unverified).
_VARIANTS: Final = {"minimax_m2_append_think": "minimax_m2"}
# Run, with each release's parsers and a tokenizer of 256 bytes: 13 of 18 reasoning parsers of 0.18.1 (qwen3 too) raise an error, in the
# engine's startup; 14 of 42 of 0.33.0 (qwen3 not). 8 of 33 tool parsers of 0.18.1 raise one, in requests with tools; 9 of 58 of 0.33.0,
# in the API server's startup. Read: StructuredOutputManager.__init__ and OpenAIServing of 0.18.1, validate_parser_tokenizer of 0.33.0.
_UNREGISTERED = Row(
    "parser-of-another-release",
    "the release does not have this parser and would not start",
    "one of these, or a release that has it",
)
_OTHER = Row(
    "parser-of-another-model",
    "with a wrong one vLLM does not start, requests with tools fail, or answers are returned as reasoning",
    "the catalog's parser",
    "warning",
)
_MISSING = Row(
    "model-without-parser",
    "the profile has one, and the catalog does not list this model; without one, reasoning stays in the text, and tool_choice auto is "
    "refused",
    "the parser of its base model (`fleet models --format json`) or of its model card",
    "note",
)


def parser_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with the model's parsers."""
    serving, engine = settings.serving, settings.serving.engine
    listed = CATALOGUE.get(serving.model.id)
    chosen: tuple[tuple[str, str | None, str | None, parsers.Kind], ...] = (
        ("toolCallParser", engine.tool_call_parser, listed.tool_parser if listed else None, "tools"),
        ("reasoningParser", engine.reasoning_parser, listed.reasoning_parser if listed else None, "reasoning"),
    )
    for name, value, in_catalogue, kind in chosen:
        path = f"server.engine.{name}"
        unknown = tuple(unregistered(path, value, kind, engine.version))
        yield from unknown
        is_catalogues = in_catalogue in (None, _VARIANTS.get(str(value), value))
        # A parser of a format that only some models have is for flags-of-another-architecture to judge.
        if value is not None and not unknown and not is_catalogues and not part_for(_OPTIONS[kind], value):
            yield _OTHER(path, value, f"{in_catalogue}, the catalog's for {serving.model.id}")
    for name in serving.unnamed_parsers:
        yield _MISSING(f"server.engine.{name}", None, "a parser of the release, or null for none")


def unregistered(subject: str, value: str | None, kind: parsers.Kind, version: str) -> Iterator[Finding]:
    """A parser that this release does not have."""
    known = parsers.registered(kind, version)
    if value is not None and known is not None and value not in known:
        yield _UNREGISTERED(subject, value, f"with {version}: {', '.join(sorted(known))}")
