"""What is asked of a server: a small sum, a burst of short requests, one long prompt twice. Bounded tokens each."""

from __future__ import annotations

import random
from typing import Any, Final

QUESTION: Final = "What is 17 plus 25? Answer with the number alone."
WHOLE_TOKENS: Final = 192
"""Most tokens of an answer that comes in one piece. Source: the article, one node under full load: 8.1 s to the first token and
46 ms for each further one, so 17 s."""
STREAM_TOKENS: Final = 768
"""Most tokens of a streamed one. Assumed: enough for a short thought and the number after it. What has come when the time is up is
looked at, so a loaded server fails nothing."""
REQUESTS_PER_RANK: Final = 4
"""Assumed: vLLM sends a request to the engine with the least 4 x waiting + running, by counts that are up to 100 ms old (design of
its coordinator), so a few a rank are needed for all to get one."""
BURST_PROMPT_TOKENS: Final = 64
BURST_TOKENS: Final = 64
"""Drafts of 32 requests with one draft token: about 1,080, of which a share of 90 % is known to within 2 points (two deviations)."""
LONG_PROMPT_ANSWER_TOKENS: Final = 4
_TOKEN_IDS: Final = (1_000, 30_000)
"""Ordinary tokens of any model, none of the special ones at either end: vLLM refuses a prompt with a token that the model does not
have. Assumed: the smallest vocabularies of models that are served today have 32,000."""


def chat(model: str, *, stream: bool, thinking: bool | None) -> dict[str, Any]:
    """The small sum."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": STREAM_TOKENS if stream else WHOLE_TOKENS,
        "temperature": 0,
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking}
    return body


def short(model: str, seed: int) -> dict[str, Any]:
    """One request of the burst: its own random tokens, as the article's benchmark draws them, and an answer of fixed length."""
    return _completion(model, _tokens(seed, BURST_PROMPT_TOKENS), BURST_TOKENS)


def long(model: str, seed: int, tokens: int) -> dict[str, Any]:
    """A prompt of exactly so many tokens that nobody else sends, and a short answer."""
    return _completion(model, _tokens(seed, tokens), LONG_PROMPT_ANSWER_TOKENS)


def _completion(model: str, prompt: list[int], tokens: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


def _tokens(seed: int, number: int) -> list[int]:
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret
    return [drawn.randint(*_TOKEN_IDS) for _ in range(number)]
