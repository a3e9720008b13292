"""A replica's answers to fixed prompts at temperature 0: prompts, requests, and the file of answers.

Each prompt is sent twice, in different batch sizes and orders: a server is not batch invariant, so its own two answers differ
on some prompts. The same difference is allowed for the canary.
"""

from __future__ import annotations

import asyncio
import hashlib
import operator
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import Field

from fleet.bench.errors import BenchmarkError
from fleet.rollout.judge.verdict import Part
from fleet.verify.client import Client

ANSWERS_FILE: Final = "answers.json"
MOST_TOKENS: Final = 48
ROUNDS: Final = 2
AT_ONCE: Final = (4, 64)
"""Requests in flight, by round."""
YARDSTICK: Final = 0.9
"""Share of prompts that the old replica must answer soundly and consistently to serve as the reference. Assumed."""
SECONDS: Final = 120.0
"""For one answer, and for the round. Assumed: 48 tokens take four seconds at full load."""
_PROMPTS: Final = Path(__file__).with_name("prompts.yaml")
_OPERATORS: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Answer(Part):
    """One answer."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    """Token ids; empty if the server does not return them."""
    error: str = ""
    """The error, if there is no answer."""


class Answers(Part):
    """answers.json."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    prompts: str
    """SHA-256 of prompts.yaml."""
    rounds: tuple[dict[str, Answer], ...]
    """By the prompt's id."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt."""

    id: str
    text: str
    result: int | None = None
    """Expected result of a sum; None for other prompts."""


@cache
def prompts() -> Mapping[str, Prompt]:
    """All prompts of prompts.yaml, by id."""
    found = yaml.safe_load(_PROMPTS.read_text(encoding="utf-8"))
    every = [Prompt(id_, text) for id_, text in found["texts"].items()]
    for number, sum_ in enumerate(found["sums"]["ask"]):
        first, sign, second = sum_.split()
        result = _OPERATORS[sign](int(first), int(second))
        every.append(Prompt(f"sum-{number:02d}", f"{found['sums']['before']}{sum_} =", result))
    before, after = (found["long"]["sentence"] * found["long"][key] for key in ("before", "after"))
    every += [Prompt(id_, before + fact + after + question) for id_, (fact, question) in found["long"]["ask"].items()]
    return {one.id: one for one in every}


def digest() -> str:
    """Digest of the prompts: answers to other prompts are not compared."""
    return hashlib.sha256(_PROMPTS.read_bytes()).hexdigest()


def ask_each(asked: Mapping[str, tuple[str, str]], api_key: str | None) -> dict[str, Answers]:
    """Answers of each server, alternating by round. A server is a URL without a path, and the served model's name."""
    rounds: dict[str, list[dict[str, Answer]]] = {side: [] for side in asked}
    for number in range(ROUNDS):
        for side, (url, model) in asked.items():
            rounds[side].append(asyncio.run(_round(url, model, api_key, number)))
    return {side: Answers(prompts=digest(), rounds=tuple(given)) for side, given in rounds.items()}


def unanswered(given: Answers) -> dict[str, str]:
    """Prompts without an answer in some round, with the reason."""
    rounds = [{id_: round_.get(id_) or Answer(error="not asked") for id_ in prompts()} for round_ in given.rounds]
    return {id_: answer.error for round_ in rounds for id_, answer in round_.items() if answer.error}


def require_answers(old: Answers) -> None:
    """Raises BenchmarkError if a replica cannot serve as the reference, before any measurement."""
    missing = unanswered(old)
    if len(missing) > (1 - YARDSTICK) * len(prompts()):
        raise BenchmarkError(
            f"the replica did not answer {len(missing)} of {len(prompts())} prompts ({next(iter(missing.values()))}): nothing "
            "was measured. Check its API key, served model name and log, then repeat"
        )


async def _round(url: str, model: str, api_key: str | None, number: int) -> dict[str, Answer]:
    order = list(prompts().values())
    random.Random(number).shuffle(order)  # noqa: S311 - an order, not a secret
    free = asyncio.Semaphore(AT_ONCE[number])
    async with Client(api_key=api_key) as client:

        async def ask(prompt: Prompt) -> tuple[str, Answer]:
            body = {"model": model, "prompt": prompt.text, "max_tokens": MOST_TOKENS, "temperature": 0, "seed": 0}
            async with free:
                # Source: vLLM 0.18.1 and 0.33.0, entrypoints/openai/completion/protocol.py: both know return_token_ids.
                reply = await client.post(url, "/v1/completions", {**body, "return_token_ids": True}, SECONDS)
            return prompt.id, _answer(reply.body) if reply.ok else Answer(error=reply.summary)

        return dict(await asyncio.gather(*map(ask, order)))


def _answer(body: Any) -> Answer:
    try:
        choice = body["choices"][0]
        return Answer(text=choice["text"], tokens=tuple(choice.get("token_ids") or ()))
    except (KeyError, IndexError, TypeError, ValueError):
        return Answer(error="the response is not a completion")
