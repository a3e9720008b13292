"""Request and response bodies of an OpenAI-compatible server: the parts that clients and load generators use.

Source: vLLM 0.18.1, entrypoints/openai/completion/protocol.py and chat_completion/protocol.py: names, order and nulls.
"""

from __future__ import annotations

import json
import operator
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Api = Literal["completions", "chat"]
Part = Literal["content", "reasoning"]
Finish = Literal["length", "stop", "tool_calls"]
DEFAULT_OUTPUT_TOKENS: Final = 16
"""Source: the completions API's default for `max_tokens`. Chat has none there; a server without a context length uses the same."""
LARGEST_OUTPUT_TOKENS: Final = 1_000_000
"""Upper bound of `max_tokens`. Assumed: far above any context length."""
_WORD: Final = " token"
_SUM: Final = re.compile(r"(\d+) ([-+*]) (\d+) =$")
_OPERATORS: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}
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


def by_words(text: str) -> int:
    """Tokens of a text whose words are tokens, as in prompts that were made for a load: these servers have no tokenizer."""
    return max(1, len(text.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A parsed request."""

    api: Api
    model: str
    input_tokens: int
    output_tokens: int
    """Maximum number of tokens."""
    stream: bool
    include_usage: bool
    """Whether the stream ends with a chunk that carries the usage."""
    least_tokens: int = 0
    ignore_eos: bool = False
    """`ignore_eos`: whether the answer always reaches its limit."""
    thinks: bool = False
    """Whether the answer begins with reasoning."""
    shows_reasoning: bool = True
    prompt: str | tuple[int, ...] = ""
    """The prompt as sent, for the prefix cache."""
    tells_tokens: bool = False
    """Whether the answer shall name its tokens: then it says something, where a load's answers are one word."""
    likeliest: int = 0
    """Likeliest tokens to report for each place."""
    salt: str = ""
    """Only prompts with the same one share cached blocks."""
    tool: str = ""
    """Name of the tool that a chat may call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a server that requests are validated against."""

    model: str
    max_model_len: int | None = None
    """Tokens of prompt and answer together; None: no limit."""
    thinks: bool = False
    """Whether the model reasons before it answers in a chat."""


def read_request(api: Api, body: bytes, limits: Limits) -> Asked:
    """Parse a body. Raises BadRequestError."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise bad_request("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise bad_request("the body is not a JSON object")
    model = fields.get("model") or limits.model
    if model != limits.model:
        raise BadRequestError(404, "NotFoundError", f"The model `{model}` does not exist.")
    prompt = _prompt(api, fields)
    input_tokens = by_words(prompt) if isinstance(prompt, str) else len(prompt)
    output_tokens = _output_tokens(api, fields, limits, input_tokens)
    return Asked(
        api=api,
        model=limits.model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
        least_tokens=_least_tokens(fields, output_tokens),
        ignore_eos=bool(fields.get("ignore_eos")),
        thinks=limits.thinks and api == "chat" and _thinks(fields),
        shows_reasoning=fields.get("include_reasoning") is not False and fields.get("reasoning_effort") != "none",
        prompt=prompt,
        tells_tokens=bool(fields.get("return_token_ids") or fields.get("logprobs")),
        likeliest=int(fields.get("logprobs") or 0) if api == "completions" else 0,
        salt=str(fields.get("cache_salt") or ""),
        tool=_tool(fields),
    )


def _prompt(api: Api, fields: Mapping[str, Any]) -> str | tuple[int, ...]:
    if api == "completions":
        if "prompt" not in fields:
            raise bad_request("prompt: a text or a list of token numbers is required")
        prompt = fields["prompt"]
        if isinstance(prompt, str):
            return prompt
        if isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
            return tuple(prompt)
        raise bad_request("prompt: one text or one list of token numbers; batches are not answered here")
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages: a list with at least one message is required")
    return "".join(_text(message) for message in messages)


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise bad_request("messages: each needs a content, a text or a list of parts")
    return content


def _output_tokens(api: Api, fields: Mapping[str, Any], limits: Limits, input_tokens: int) -> int:
    given = fields.get("max_completion_tokens", fields.get("max_tokens"))
    room = None if limits.max_model_len is None else limits.max_model_len - input_tokens
    if given is None:
        given = DEFAULT_OUTPUT_TOKENS if api == "completions" or room is None else max(1, room)
    elif not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= LARGEST_OUTPUT_TOKENS:
        raise bad_request(f"max_tokens: a whole number from 1 to {LARGEST_OUTPUT_TOKENS}, got {given!r}")
    if room is not None and given > room:
        raise bad_request(
            f"{input_tokens} tokens of prompt and {given} of answer exceed the model's context of {limits.max_model_len}"
        )
    tokens: int = given
    return tokens


def _least_tokens(fields: Mapping[str, Any], output_tokens: int) -> int:
    least = fields.get("min_tokens") or 0
    if not isinstance(least, int) or isinstance(least, bool) or not 0 <= least <= output_tokens:
        raise bad_request(f"min_tokens: a whole number from 0 to max_tokens, {output_tokens}, got {least!r}")
    return least


def _tool(fields: Mapping[str, Any]) -> str:
    tools = fields.get("tools") or []
    return str(tools[0]["function"]["name"]) if tools else ""


def _thinks(fields: Mapping[str, Any]) -> bool:
    return (fields.get("chat_template_kwargs") or {}).get("enable_thinking") is not False


# Answers


def usage(asked: Asked, output_tokens: int) -> dict[str, Any]:
    """The usage block."""
    return {
        "prompt_tokens": asked.input_tokens,
        "total_tokens": asked.input_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A generated answer."""

    tokens: int
    content: str | None
    reasoning: str | None = None
    finish: Finish = "length"
    token_ids: Sequence[int] | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()


def words(tokens: int) -> str:
    """A text of `tokens` tokens."""
    return _WORD * tokens


def spoken(asked: Asked, tokens: int, *, wrong: bool = False) -> tuple[str, list[int]]:
    """A text of that many tokens, and their numbers: the result where the prompt ends in a sum, what followed its last line where
    that was said before, then words that follow from the prompt. `wrong`: a wrong result in other words, as from a broken GPU.
    """
    found = _SUM.search(str(asked.prompt))
    drawn = random.Random(f"{wrong}{asked.prompt}")
    numbers = [drawn.randrange(1_000, 30_000) for _ in range(tokens)]
    if found is not None:
        numbers[0] = _OPERATORS[found[2]](int(found[1]), int(found[3])) + wrong
    known = found is not None or _recall(asked.prompt, numbers, wrong=wrong)
    said = [str(number) if known and not place else f"word{number}" for place, number in enumerate(numbers)]
    return " " + " ".join(said), numbers


def _recall(prompt: str | tuple[int, ...], numbers: list[int], *, wrong: bool) -> bool:
    """Puts the number that followed the prompt's last line before in the first place, if there was one."""
    before, _, line = str(prompt).rpartition("\n")
    followed = re.search(re.escape(line) + r" (\d+)", before) if line and before else None
    if followed is not None:
        numbers[0] = int(followed[1]) + wrong
    return followed is not None


def likeliest(numbers: Sequence[int]) -> dict[str, Any]:
    """Log probabilities of these tokens: each far ahead of the next."""
    named = [f"token_id:{number}" for number in numbers]
    return {
        "text_offset": list(range(len(named))),
        "token_logprobs": [-0.1] * len(named),
        "tokens": named,
        "top_logprobs": [{name: -0.1, "token_id:7": -3.0} for name in named],
    }


def tool_call(tool: str) -> dict[str, Any]:
    """A call of that tool, as the parser gives it."""
    arguments = json.dumps({"city": "Oslo"})
    return {"id": "call-1", "type": "function", "function": {"name": tool, "arguments": arguments}}


def whole_answer(asked: Asked, id_: str, created: int, said: Said) -> dict[str, Any]:
    """The response of a non-streaming request."""
    choice: dict[str, Any] = {"index": 0}
    if asked.api == "chat":
        choice["message"] = {
            "role": "assistant",
            "content": said.content,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "tool_calls": list(said.tool_calls),
            "reasoning": said.reasoning,
        }
    else:
        choice["text"] = said.content
    told = likeliest(said.token_ids or ()) if asked.likeliest else None
    choice |= {"logprobs": told, "finish_reason": said.finish, "stop_reason": None, "token_ids": said.token_ids}
    head = _head(asked, id_, created, chunk=False)
    tail = {"service_tier": None, "system_fingerprint": None}
    return {**head, "choices": [choice], **tail, "usage": usage(asked, said.tokens), "kv_transfer_params": None}


class ChunkWriter:
    """Server-sent events of one answer; constant parts are serialized once."""

    def __init__(self, asked: Asked, id_: str, created: int) -> None:
        self._asked = asked
        head = json.dumps(_head(asked, id_, created, chunk=True), separators=(",", ":"))
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
        told = usage(self._asked, output_tokens)
        del told["prompt_tokens_details"]
        return f'{self._begin}],"usage":{json.dumps(told, separators=(",", ":"))}}}\n\n'.encode() + END_OF_STREAM


def _head(asked: Asked, id_: str, created: int, *, chunk: bool) -> dict[str, Any]:
    if asked.api == "chat":
        kind = "chat.completion.chunk" if chunk else "chat.completion"
        return {"id": f"chatcmpl-{id_}", "object": kind, "created": created, "model": asked.model}
    return {"id": f"cmpl-{id_}", "object": "text_completion", "created": created, "model": asked.model}


def model_list(
    model: str, created: int, *, root: str | None = None, max_model_len: int | None = None
) -> dict[str, Any]:
    """The answer to /v1/models. `root`: where the weights came from, by default the model's name."""
    card = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": root or model,
        "parent": None,
        "max_model_len": max_model_len,
    }
    return {"object": "list", "data": [card]}


def prefix_units(asked: Asked) -> Sequence[Any]:
    """Key of a prompt in the prefix cache: its token numbers or words, the first with the salt."""
    units = asked.prompt.split() if isinstance(asked.prompt, str) else asked.prompt
    return [(asked.salt, units[0]), *units[1:]] if asked.salt and units else units
