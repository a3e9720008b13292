"""Request and response bodies of an OpenAI-compatible server: the parts that the benchmark's client and `fleet verify` use.

Source: vLLM 0.18.1, entrypoints/openai/completion/protocol.py and chat_completion/protocol.py: names, order and nulls.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tests.support.simulators.model_server.node import Node

Api = Literal["completions", "chat"]
Part = Literal["content", "reasoning"]
Finish = Literal["length", "stop"]
DEFAULT_OUTPUT_TOKENS: Final = 16
"""Source: the completions API's default for `max_tokens`."""
LARGEST_OUTPUT_TOKENS: Final = 1_000_000
"""Upper bound of `max_tokens`. Assumed: far above any context length."""
_WORD: Final = " token"
END_OF_STREAM: Final = b"data: [DONE]\n\n"


class BadRequestError(Exception):
    """A refused request. `status` is the HTTP status, `kind` the error's type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message

    def body(self) -> dict[str, Any]:
        """The `error` object as vLLM returns it."""
        return {"error": {"message": self.message, "type": self.kind, "param": None, "code": self.status}}


def bad_request(message: str) -> BadRequestError:
    """HTTP 400."""
    return BadRequestError(400, "BadRequestError", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A parsed request."""

    api: Api
    model: str
    input_tokens: int
    """Words of a text are tokens, as in prompts that were made for a load: this server has no tokenizer."""
    output_tokens: int
    """Maximum number of tokens."""
    stream: bool
    include_usage: bool
    """Whether the stream ends with a chunk that carries the usage."""
    ignore_eos: bool = False
    """`ignore_eos`: whether the answer always reaches its limit."""
    thinks: bool = False
    """Whether the answer begins with reasoning."""
    prompt: str | tuple[int, ...] = ""
    """The prompt as sent, for the prefix cache."""
    tells_likeliest: bool = False
    """Whether the answer reports log probabilities: then it says something, where a load's answers are one word."""
    salt: str = ""
    """Only prompts with the same one share cached blocks."""


def read_request(api: Api, body: bytes, node: Node) -> Asked:
    """Parse a body. Raises BadRequestError."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise bad_request("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise bad_request("the body is not a JSON object")
    model = fields.get("model") or node.model
    if model != node.model:
        raise BadRequestError(404, "NotFoundError", f"The model `{model}` does not exist.")
    prompt = _prompt(api, fields)
    input_tokens = max(1, len(prompt.split())) if isinstance(prompt, str) else len(prompt)
    return Asked(
        api=api,
        model=model,
        input_tokens=input_tokens,
        output_tokens=_output_tokens(fields, node.max_model_len - input_tokens),
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
        ignore_eos=bool(fields.get("ignore_eos")),
        thinks=node.reasons and api == "chat",
        prompt=prompt,
        tells_likeliest=bool(fields.get("logprobs")),
        salt=str(fields.get("cache_salt") or ""),
    )


def _prompt(api: Api, fields: Mapping[str, Any]) -> str | tuple[int, ...]:
    if api == "completions":
        prompt = fields.get("prompt")
        if isinstance(prompt, str):
            return prompt
        if isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
            return tuple(prompt)
        raise bad_request("prompt: one text or one list of token numbers; batches are not answered here")
    if not fields.get("stream"):
        raise bad_request("stream: only streams of chats are answered here")
    messages = fields.get("messages")
    given = [one.get("content") for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    texts = [text for text in given if isinstance(text, str)]
    if not texts or len(texts) < len(given):
        raise bad_request("messages: a list with at least one message is required, each with a text as its content")
    return "".join(texts)


def _output_tokens(fields: Mapping[str, Any], room: int) -> int:
    given = fields.get("max_tokens", DEFAULT_OUTPUT_TOKENS)
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= LARGEST_OUTPUT_TOKENS:
        raise bad_request(f"max_tokens: a whole number from 1 to {LARGEST_OUTPUT_TOKENS}, got {given!r}")
    if given > room:
        raise bad_request(f"max_tokens: {given} tokens of answer exceed the {room} that the model's context leaves")
    return given


# Answers


def words(tokens: int) -> str:
    """A text of `tokens` tokens."""
    return _WORD * tokens


def spoken(prompt: str | tuple[int, ...], tokens: int, *, wrong: bool = False) -> tuple[str, list[int]]:
    """A text of that many tokens, and their numbers: what followed the prompt's last line where that was said before, then words that
    follow from the prompt. `wrong`: a wrong result in other words, as from a broken GPU.
    """
    drawn = random.Random(f"{wrong}{prompt}")
    numbers = [drawn.randrange(1_000, 30_000) for _ in range(tokens)]
    said = [f"word{number}" for number in numbers]
    before, _, line = str(prompt).rpartition("\n")
    if line and before and (followed := re.search(re.escape(line) + r" (\d+)", before)):
        numbers[0] = int(followed[1]) + wrong
        said[0] = str(numbers[0])
    return " " + " ".join(said), numbers


def likeliest(numbers: Sequence[int]) -> dict[str, Any]:
    """Log probabilities of these tokens: each far ahead of the next."""
    named = [f"token_id:{number}" for number in numbers]
    return {
        "text_offset": list(range(len(named))),
        "token_logprobs": [-0.1] * len(named),
        "tokens": named,
        "top_logprobs": [{name: -0.1, "token_id:7": -3.0} for name in named],
    }


def whole_completion(
    asked: Asked, id_: str, created: int, tokens: int, finish: Finish, *, wrong: bool
) -> dict[str, Any]:
    """The response of a completion that is not streamed. `wrong`: see `spoken`."""
    text, numbers = spoken(asked.prompt, tokens, wrong=wrong) if asked.tells_likeliest else (words(tokens), None)
    choice = {
        "index": 0,
        "text": text,
        "logprobs": None if numbers is None else likeliest(numbers),
        "finish_reason": finish,
        "stop_reason": None,
        "token_ids": None,
    }
    return {
        **_head(asked, id_, created),
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": {**_usage(asked, tokens), "prompt_tokens_details": None},
        "kv_transfer_params": None,
    }


def _usage(asked: Asked, output_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": asked.input_tokens,
        "total_tokens": asked.input_tokens + output_tokens,
        "completion_tokens": output_tokens,
    }


class ChunkWriter:
    """Server-sent events of one answer; constant parts are serialized once."""

    def __init__(self, asked: Asked, id_: str, created: int) -> None:
        self._asked = asked
        head = json.dumps(_head(asked, id_, created), separators=(",", ":"))
        self._begin = f'data: {head[:-1]},"choices":['
        self._chat = asked.api == "chat"

    def opening(self) -> bytes:
        """The first chunk of a chat stream; empty for completions."""
        if not self._chat:
            return b""
        delta = '{"role":"assistant","content":""}'
        return f'{self._begin}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]}}\n\n'.encode()

    def tokens(self, number: int, *, last: bool, part: Part = "content", finish: Finish = "length") -> bytes:
        """A chunk of tokens; the last one has the finish reason."""
        return self.text(_WORD * number, part, finish if last else None)

    def text(self, text: str, part: Part, finish: Finish | None) -> bytes:
        """A chunk with that text."""
        said, end = json.dumps(text), f'"{finish}"' if finish else "null"
        if self._chat:
            stop = ',"stop_reason":null' if finish else ""
            body = f'"delta":{{"{part}":{said}}},"logprobs":null,"finish_reason":{end}{stop},"token_ids":null'
            return f'{self._begin}{{"index":0,{body}}}]}}\n\n'.encode()
        body = (
            f'"text":{said},"logprobs":null,"finish_reason":{end},"stop_reason":null,'
            '"prompt_token_ids":null,"token_ids":null'
        )
        return f'{self._begin}{{"index":0,{body}}}],"usage":null}}\n\n'.encode()

    def closing(self, output_tokens: int) -> bytes:
        """The usage, if requested, and the end of the stream."""
        if not self._asked.include_usage:
            return END_OF_STREAM
        told = json.dumps(_usage(self._asked, output_tokens), separators=(",", ":"))
        return f'{self._begin}],"usage":{told}}}\n\n'.encode() + END_OF_STREAM


def _head(asked: Asked, id_: str, created: int) -> dict[str, Any]:
    """Of an answer or of each of its chunks."""
    if asked.api == "chat":
        return {"id": f"chatcmpl-{id_}", "object": "chat.completion.chunk", "created": created, "model": asked.model}
    return {"id": f"cmpl-{id_}", "object": "text_completion", "created": created, "model": asked.model}


def model_list(node: Node, created: int) -> dict[str, Any]:
    """The answer to /v1/models."""
    card = {
        "id": node.model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": node.model,
        "parent": None,
        "max_model_len": node.max_model_len,
    }
    return {"object": "list", "data": [card]}
