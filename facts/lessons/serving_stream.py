"""Rules for what a vLLM server streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.parsers import streams_bunches
from facts.releases import CURRENT, number_of

_INTERVAL: Final = "stream-interval"
_REWRITTEN: Final = number_of("0.33.0")
"""Of the known releases, the first whose parsers were rewritten to read any number of tokens (vllm-project/vllm#45413)."""


def _calls_cut(server: Served, _: Limits) -> Iterator[Breach]:
    interval, parser = server.flags.count(_INTERVAL) or 1, server.flags.text("tool-call-parser")
    if interval <= 1 or parser is None:
        return
    release = server.read_as
    is_new = release.number >= _REWRITTEN
    if is_new and streams_bunches(parser, release.version) in (True, None):
        return
    yield Breach(
        option=_INTERVAL,
        value=interval,
        allowed="1" if is_new else f"1, or {{image-tag=v{CURRENT}}}",
        because=f"{{tool-call-parser}} is {parser}, on vLLM {release.version}",
        why="this parser was not rewritten for streams of several tokens; parsers of its kind lose names or arguments of streamed calls "
        "(vllm-project/vllm#48020, #48347, #55082, open on 2026-09-03)"
        if is_new
        else "",
        changes={_INTERVAL: None},
        is_advisory=is_new,
    )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="streamed-calls-cut",
        statement="Streamed tool calls arrive whole.",
        evidence="before the rewrite of vLLM's parsers (vllm-project/vllm#45413, in 0.33.0) a chunk of several tokens loses a streamed "
        "call's arguments or their end, without an error (vllm-project/vllm#31501, #45256); in 0.33.0 calls in qwen3_coder's format were "
        "whole in chunks of 1 to 64 tokens (run)",
        level_reason="clients get HTTP 200 and a broken call. A parser of 0.33 that was not rewritten is advisory: not all are known "
        "to fail",
        fix=f"remove {{{_INTERVAL}}}, or {{image-tag=v{CURRENT}}} and its digest",
        level="mandatory",
        severity="high",
        judge=_calls_cut,
    ),
)
