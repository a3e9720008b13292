"""The bodies that an OpenAI-compatible server sends and takes, reduced to what clients and load generators read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Api = Literal["completions", "chat"]
DEFAULT_OUTPUT_TOKENS: Final = 16
"""Source: the completions API's default for `max_tokens`. Chat has none there; this server uses the same."""
CHARACTERS_PER_TOKEN: Final = 4
"""Assumed: a usual ratio for English. This server has no tokenizer; a prompt of token numbers is counted exactly."""
LARGEST_OUTPUT_TOKENS: Final = 1_000_000
"""Assumed: far above any context length; keeps a slip from asking for an endless answer."""
_WORD: Final = " token"
END_OF_STREAM: Final = b"data: [DONE]\n\n"


class BadRequestError(Exception):
    """A request that an OpenAI-compatible server refuses. `status` is the HTTP status, `kind` the error's type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message

    def body(self) -> dict[str, Any]:
        """As vLLM words it: an `error` object with message, type and code."""
        return {"error": {"message": self.message, "type": self.kind, "param": None, "code": self.status}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for."""

    api: Api
    model: str
    input_tokens: int
    output_tokens: int
    stream: bool
    include_usage: bool
    """Whether the stream ends with a chunk that carries the usage."""


def read_request(api: Api, body: bytes, served_model: str) -> Asked:
    """The request in a body. Raises BadRequestError."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise BadRequestError(400, "BadRequestError", "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise BadRequestError(400, "BadRequestError", "the body is not a JSON object")
    model = fields.get("model") or served_model
    if model != served_model:
        raise BadRequestError(404, "NotFoundError", f"The model `{model}` does not exist.")
    return Asked(
        api=api,
        model=served_model,
        input_tokens=_input_tokens(api, fields),
        output_tokens=_output_tokens(fields),
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
    )


def _input_tokens(api: Api, fields: Mapping[str, Any]) -> int:
    if api == "completions":
        if "prompt" not in fields:
            raise BadRequestError(400, "BadRequestError", "prompt: a text or a list of token numbers is required")
        return _prompt_tokens(fields["prompt"])
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError(400, "BadRequestError", "messages: a list with at least one message is required")
    return sum(_prompt_tokens(_text(one)) for one in messages)


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise BadRequestError(400, "BadRequestError", "messages: each needs a content, a text or a list of parts")
    return content


def _prompt_tokens(prompt: Any) -> int:
    if isinstance(prompt, str):
        return max(1, len(prompt) // CHARACTERS_PER_TOKEN)
    if isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
        return len(prompt)
    raise BadRequestError(
        400, "BadRequestError", "prompt: one text or one list of token numbers; batches are not answered here"
    )


def _output_tokens(fields: Mapping[str, Any]) -> int:
    given = fields.get("max_completion_tokens", fields.get("max_tokens"))
    if given is None:
        return DEFAULT_OUTPUT_TOKENS
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= LARGEST_OUTPUT_TOKENS:
        raise BadRequestError(
            400, "BadRequestError", f"max_tokens: a whole number from 1 to {LARGEST_OUTPUT_TOKENS}, got {given!r}"
        )
    return given


# Answers


def usage(asked: Asked, output_tokens: int) -> dict[str, int]:
    """The usage block."""
    return {
        "prompt_tokens": asked.input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": asked.input_tokens + output_tokens,
    }


def whole_answer(asked: Asked, id_: str, created: int) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    text = _WORD * asked.output_tokens
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length", "logprobs": None}
    if asked.api == "chat":
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    return {**_head(asked, id_, created, chunk=False), "choices": [choice], "usage": usage(asked, asked.output_tokens)}


class ChunkWriter:
    """Server-sent events of one answer. What does not change from chunk to chunk is written once."""

    def __init__(self, asked: Asked, id_: str, created: int) -> None:
        self._asked = asked
        head = json.dumps(_head(asked, id_, created, chunk=True), separators=(",", ":"))
        self._head = f"data: {head[:-1]}"

    def opening(self) -> bytes:
        """What a chat stream says before its first token; nothing for completions."""
        return self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}}]) if self._chat else b""

    def tokens(self, number: int, *, last: bool) -> bytes:
        """A chunk of that many tokens."""
        text, finish = _WORD * number, "length" if last else None
        said: dict[str, Any] = {"delta": {"content": text}} if self._chat else {"text": text}
        return self._event([{"index": 0, **said, "finish_reason": finish}])

    def closing(self) -> bytes:
        """The usage, where it was asked for, and the end."""
        wanted = self._asked.include_usage
        return (self._event([], usage(self._asked, self._asked.output_tokens)) if wanted else b"") + END_OF_STREAM

    @property
    def _chat(self) -> bool:
        return self._asked.api == "chat"

    def _event(self, choices: list[dict[str, Any]], usage_: dict[str, int] | None = None) -> bytes:
        end = f',"usage":{json.dumps(usage_, separators=(",", ":"))}' if usage_ else ""
        return f'{self._head},"choices":{json.dumps(choices, separators=(",", ":"))}{end}}}\n\n'.encode()


def _head(asked: Asked, id_: str, created: int, *, chunk: bool) -> dict[str, Any]:
    if asked.api == "chat":
        kind = "chat.completion.chunk" if chunk else "chat.completion"
        return {"id": f"chatcmpl-{id_}", "object": kind, "created": created, "model": asked.model}
    return {"id": f"cmpl-{id_}", "object": "text_completion", "created": created, "model": asked.model}


def model_list(model: str, created: int) -> dict[str, Any]:
    """The answer to /v1/models."""
    return {"object": "list", "data": [{"id": model, "object": "model", "created": created, "owned_by": "vllm"}]}
