"""Requests to a server: a small sum, a burst of short requests, one long prompt twice. Bounded tokens each."""

from __future__ import annotations

import random
from typing import Any, Final

from fleet.verify import judgement

QUESTION: Final = "What is 17 plus 25? Answer with the number alone."
WHOLE_TOKENS: Final = 192
"""Maximum tokens of a complete answer. Source: the article, one node under full load: 8.1 s to the first token and
46 ms per further token, so 17 s."""
STREAM_TOKENS: Final = 768
"""Maximum tokens of a streamed answer. Assumed: enough for short reasoning and the number. Partial output at the timeout is
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
"""Tokens of the answer to the long passage. Assumed: longer answers have more near ties."""
LOAD_PER_RANK: Final = 24
"""Requests beside the question, by engine. Assumed: enough for other shapes of a batch."""
SENTENCE_TOKENS: Final = (18, 26)
"""Fewest and most tokens of the passage's sentence. Assumed: it has 20 words and four marks."""
_SENTENCE: Final = (
    "The train leaves the station at noon and passes the river, the mill and the orchard before it is dark. "
)
_AFTER: Final = 4
"""Sentences after the needle."""
TOOL: Final = "get_weather"
PLACE: Final = "Oslo"
TOOL_TOKENS: Final = 256
_TOKEN_IDS: Final = (1_000, 30_000)
"""Token ids valid for any model, without special tokens at either end: vLLM refuses unknown token ids.
Assumed: the smallest vocabularies in use have 32,000."""


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
    """One request of the burst: random tokens, as in the article's benchmark, and an answer of fixed length."""
    return _completion(model, _tokens(seed, BURST_PROMPT_TOKENS), BURST_TOKENS)


def beside(model: str, seed: int, client: int) -> dict[str, Any]:
    """One request beside the question. Clients ask for answers of different length, so that they do not all end at once."""
    return _completion(model, _tokens(seed, BURST_PROMPT_TOKENS), BURST_TOKENS * (1 + client % 4))


def long(model: str, seed: int, tokens: int) -> dict[str, Any]:
    """A unique prompt of exactly this many tokens, and a short answer."""
    return _completion(model, _tokens(seed, tokens), LONG_PROMPT_ANSWER_TOKENS)


def needle(model: str, tokens: int, salt: str) -> dict[str, Any]:
    """What a passage of at least this many tokens says once. Only prompts with the same salt share cached blocks."""
    sentences = -(-tokens // SENTENCE_TOKENS[0])
    early, late = _SENTENCE * max(0, sentences - _AFTER), _SENTENCE * _AFTER
    prompt = f"{early}The code of the safe is {NEEDLE}. {late}\nThe code of the safe is"
    return {**judgement.question(model, prompt, NEEDLE_TOKENS), "cache_salt": salt}


def most_tokens(tokens: int) -> int:
    """Upper bound of such a passage with its answer."""
    sentences = -(-tokens // SENTENCE_TOKENS[0])
    return (sentences + _AFTER + 1) * SENTENCE_TOKENS[1] + NEEDLE_TOKENS


def tool(model: str, *, thinking: bool | None) -> dict[str, Any]:
    """A question that only a tool can answer."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": f"What is the weather in {PLACE} now? Use the tool."}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": TOOL,
                    "description": "The weather of a city at this moment",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
            }
        ],
        "max_tokens": TOOL_TOKENS,
        "temperature": 0,
        "seed": 0,
    }
    if thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking}
    return body


def _completion(model: str, prompt: list[int], tokens: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


def _tokens(seed: int, number: int) -> list[int]:
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret
    return [drawn.randint(*_TOKEN_IDS) for _ in range(number)]
