"""Requests to a server: a small sum, a burst of short requests, one long prompt twice, and the one question of --answers. Bounded
tokens each.
"""

from __future__ import annotations

import random
from typing import Any, Final

from fleet.verify import judgement

QUESTION: Final = "What is 17 plus 25? Answer with the number alone."
STREAM_TOKENS: Final = 768
"""Maximum tokens of the streamed answer. Assumed: enough for short reasoning and the number. Partial output at the timeout is
evaluated, so a loaded server does not fail."""
REQUESTS_PER_RANK: Final = 4
"""Requests per rank. Assumed: vLLM selects the engine with the least 4 x waiting + running, from counts up to 100 ms old (design of
its coordinator), so each rank needs a few requests to receive one."""
BURST_PROMPT_TOKENS: Final = 64
BURST_TOKENS: Final = 64
"""Tokens per request. 32 requests with one draft token give about 1,080 drafts: a share of 90 % is accurate to 2 points (two
deviations)."""
LONG_PROMPT_ANSWER_TOKENS: Final = 4
NEEDLE: Final = "4711"
NEEDLE_TOKENS: Final = 32
"""Tokens of the answer to the passage. Assumed: longer answers have more near ties."""
PASSAGE_TOKENS: Final = 800
"""Of the passage where no prompt can hit the prefix cache. Assumed: several chunks of attention."""
SENTENCE_TOKENS: Final = (18, 26)
"""Fewest and most tokens of the passage's sentence. Assumed: it has 20 words and four marks."""
_SENTENCE: Final = (
    "The train leaves the station at noon and passes the river, the mill and the orchard before it is dark. "
)
_AFTER: Final = 4
"""Sentences after the number."""
_TOKEN_IDS: Final = (1_000, 30_000)
"""Token ids valid for any model, without special tokens at either end: vLLM refuses unknown token ids.
Assumed: the smallest vocabularies in use have 32,000."""


def chat(model: str) -> dict[str, Any]:
    """The small sum, streamed, with the server's default for thinking."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": STREAM_TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def short(model: str, seed: int) -> dict[str, Any]:
    """One request of the burst: random tokens, as in the article's benchmark, and an answer of fixed length."""
    return _completion(model, _tokens(seed, BURST_PROMPT_TOKENS), BURST_TOKENS)


def long(model: str, seed: int, tokens: int) -> dict[str, Any]:
    """A unique prompt of exactly this many tokens, and a short answer."""
    return _completion(model, _tokens(seed, tokens), LONG_PROMPT_ANSWER_TOKENS)


def needle(model: str, tokens: int, context: int | None, salt: str) -> dict[str, Any]:
    """What a passage says once: of at least this many tokens, or as long as the context allows. Only prompts with the same salt share
    cached blocks.
    """
    sentences = -(-tokens // SENTENCE_TOKENS[0])
    if context is not None:
        sentences = max(0, min(sentences, (context - NEEDLE_TOKENS) // SENTENCE_TOKENS[1] - _AFTER - 1))
    prompt = f"{_SENTENCE * sentences}The code of the safe is {NEEDLE}. {_SENTENCE * _AFTER}\nThe code of the safe is"
    return {**judgement.question(model, prompt, NEEDLE_TOKENS), "cache_salt": salt}


def _completion(model: str, prompt: list[int], tokens: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


def _tokens(seed: int, number: int) -> list[int]:
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret
    return [drawn.randint(*_TOKEN_IDS) for _ in range(number)]
