"""Judges greedy answers: whether one is sound, and whether two to the same prompt differ by more than rounding.

A server is not batch invariant: beside other requests, or from cached blocks, sums round differently, and where two tokens are almost
equally likely the greedy choice flips. From there on both answers are right. So only the first difference is judged, by how much more
likely each side held its own token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Natural logarithms. A logit is a bfloat16 with eight bits: between 16 and 32 it moves in steps of 0.125, between 32 and 64 of 0.25. Two
# logits that each round by one step move by 0.5 against each other. Steps of 0.125 and flips at ties: vllm-project/vllm#9567.
NEAR_TIE: Final = 0.5
# Likeliest tokens of each place. vLLM's own tests of two runs look for the other's token among five.
LIKELIEST: Final = 5
# Longest repeated sequence of tokens; an answer that ends with at least LOOPS repeats is a loop.
LOOP: Final = 4
LOOPS: Final = 6
# Allowed share of unreadable characters. Assumed.
UNREADABLE: Final = 0.1


@dataclass(frozen=True)
class Answer:
    """A completion with its log probabilities."""

    text: str
    tokens: tuple[str, ...] = ()
    likeliest: tuple[Mapping[str, float], ...] = ()
    """By token, for each place."""


def question(model: str, prompt: str, tokens: int) -> dict[str, Any]:
    """A greedy completion that reports its tokens. Source: vLLM 0.18.1 and 0.33.0, entrypoints/openai/completion/protocol.py."""
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "seed": 0,
        "logprobs": LIKELIEST,
        "return_tokens_as_token_ids": True,
    }


def answer_of(body: Any) -> Answer | None:
    """The answer in a response; None if it has none, or no tokens."""
    try:
        choice = body["choices"][0]
        told = choice["logprobs"]
        return Answer(str(choice["text"]), tuple(told["tokens"]), tuple(told["top_logprobs"]))
    except (KeyError, IndexError, TypeError):
        return None


def unsound(text: str, items: Sequence[Any]) -> str:
    """Why an answer of these tokens or words is garbage; empty if it is not."""
    text = text.rstrip("\N{REPLACEMENT CHARACTER}")  # a partial character at the cut
    if not text.strip():
        return "empty"
    unreadable = sum(each == "\N{REPLACEMENT CHARACTER}" or not (each.isprintable() or each.isspace()) for each in text)
    if unreadable > UNREADABLE * len(text):
        return f"{unreadable} of {len(text)} characters unreadable"
    last = list(items)
    for size in range(1, LOOP + 1):
        if len(last) >= size * LOOPS and last[-size:] * LOOPS == last[-size * LOOPS :]:
            return "ends in a loop"
    return ""


def difference(answer: Answer, other: Answer) -> str:
    """How an answer differs from the other beyond rounding; empty if it does not."""
    for place, (token, its) in enumerate(zip(answer.tokens, other.tokens, strict=False), 1):
        if token != its:
            gaps = (_gap(answer, place, token, its), _gap(other, place, its, token))
            if None in gaps:
                return f"token {place} is another, and not among the {LIKELIEST} likeliest"
            most = max(gap for gap in gaps if gap is not None)
            return f"token {place} is another, by {most:.2f} in log probability" if most > NEAR_TIE else ""
    lengths = len(answer.tokens), len(other.tokens)
    return "" if lengths[0] == lengths[1] else f"ends after {lengths[0]} tokens instead of {lengths[1]}"


def _gap(answer: Answer, place: int, token: str, other: str) -> float | None:
    """How much more likely its token was than the other's; None if it does not name both."""
    likely = answer.likeliest[place - 1] if place <= len(answer.likeliest) else {}
    return likely[token] - likely[other] if token in likely and other in likely else None
