"""Asks every engine the same question alone, under load and again, for `fleet verify --answers`. Evaluates nothing."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fleet.verify import declared, questions
from fleet.verify.facts import Moment, Reply, Target, Told

if TYPE_CHECKING:
    from fleet.verify.client import Client
    from settings.stack import Settings

ANSWER_SECONDS: Final = 30.0
"""For one answer under the load that the question brings."""
SHORT_PASSAGE_TOKENS: Final = 800
"""Of the passage where no prompt can hit. Assumed: several chunks of attention, and it fits the smallest contexts in use."""

Engine = tuple[Target, int | None]


async def ask_answers(
    client: Client, settings: Settings, engines: Sequence[Engine], models: Mapping[Target, str]
) -> tuple[Told, ...]:
    """The replies of all engines, moment by moment; empty if no passage fits the context."""
    tokens = passage_tokens(settings)
    if tokens is None:
        return ()
    first, second = secrets.token_hex(8), secrets.token_hex(8)

    async def ask(target: Target, rank: int | None, moment: Moment, salt: str) -> Told:
        body = questions.needle(models[target], tokens, salt)
        reply = await client.post(target.url, "/v1/completions", body, ANSWER_SECONDS, rank=rank)
        return Told(where=target.name, rank=rank, moment=moment, reply=reply)

    async def ask_under_load(target: Target, rank: int | None) -> Told:
        begun, over = asyncio.Event(), asyncio.Event()
        load = [
            asyncio.create_task(_load(client, target, rank, (models[target], number), begun, over))
            for number in range(questions.LOAD_PER_RANK)
        ]
        await begun.wait()
        # A salt of its own: under load the passage is computed, not read from the cache.
        told = await ask(target, rank, "under load", second)
        over.set()
        await asyncio.gather(*load)
        return told

    return (
        *await asyncio.gather(*(ask(*engine, "alone", first) for engine in engines)),
        *await asyncio.gather(*(ask_under_load(*engine) for engine in engines)),
        *await asyncio.gather(*(ask(*engine, "asked again", first) for engine in engines)),
    )


def passage_tokens(settings: Settings) -> int | None:
    """Tokens of a passage that hits the prefix cache when asked again, or of a short one; None if none fits."""
    context = declared.context_tokens(settings)
    hits = declared.prompt_to_hit(settings) if settings.serving.caches_prefixes else None
    for tokens in (hits, SHORT_PASSAGE_TOKENS):
        if tokens is not None and (context is None or questions.most_tokens(tokens) <= context):
            return tokens
    return None


async def ask_tool(client: Client, settings: Settings, target: Target, model: str) -> Reply | None:
    """The reply to a question that needs a tool; None without a parser of tool calls."""
    engine = settings.serving.engine
    if engine.tool_call_parser is None:
        return None
    thinking = False if engine.reasoning_parser is not None else None
    return await client.post(
        target.url, "/v1/chat/completions", questions.tool(model, thinking=thinking), ANSWER_SECONDS
    )


async def _load(
    client: Client, target: Target, rank: int | None, as_: tuple[str, int], begun: asyncio.Event, over: asyncio.Event
) -> None:
    """One of the other clients, by model and number: request after request until the question is answered."""
    while not over.is_set():
        body = questions.beside(as_[0], secrets.randbits(32), as_[1])
        reply = await client.post(target.url, "/v1/completions", body, ANSWER_SECONDS, rank=rank)
        begun.set()
        if not reply.ok:
            return
