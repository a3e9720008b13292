"""What one line asks: a request in OpenAI's batch format, or a row that a template makes one. A bad line is told by key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from facts.strict_json import KeyTwiceError, loads
from facts.texts import nearest, shortened
from facts.user_error import UserError
from settings.sections.batch import NO_EMBEDDINGS, template_parts

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_URLS: Final = (CHAT, COMPLETIONS)
_EMBEDDINGS: Final = "/v1/embeddings"
_KEYS: Final = ("custom_id", "method", "url", "body")
COMPLETION_TOKENS: Final = 16
"""Longest answer of a completion without `max_tokens`. Source: vLLM, entrypoints/openai/completion/protocol.py, CompletionRequest."""
# Source of both: vLLM 0.33.0, entrypoints/openai, ChatCompletionRequest and CompletionRequest, without what this plan does not count:
# beam search, other templates, documents for a template, media and embeddings as prompts.
# fmt: off
_SHARED: Final = frozenset(
    {
        "allowed_token_ids", "bad_words", "cache_salt", "frequency_penalty", "ignore_eos",
        "include_stop_str_in_output", "length_penalty", "logit_bias", "logprobs", "max_tokens", "min_p",
        "min_tokens", "model", "n", "presence_penalty", "priority", "prompt_logprobs", "repetition_penalty",
        "request_id", "response_format", "return_token_ids", "return_tokens_as_token_ids", "seed",
        "skip_special_tokens", "spaces_between_special_tokens", "stop", "stop_token_ids", "stream",
        "stream_options", "structured_outputs", "temperature", "thinking_token_budget", "top_k", "top_p",
        "user", "vllm_xargs",
    }
)
# fmt: on
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    CHAT: _SHARED
    | {"messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls"}
    | {"reasoning_effort", "include_reasoning", "chat_template_kwargs"}
    | {"add_generation_prompt", "continue_final_message", "echo"},
    COMPLETIONS: _SHARED | {"prompt"},
}
"""Fields of a request's body that a plan counts, by path of the API. `make vllm-check` asks the real classes for them."""
_MESSAGE_FIELDS: Final = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning",
    "reasoning_content",
    "refusal",
)
ROLES: Final = ("system", "developer", "user", "assistant", "tool")
"""Roles of messages. Source: vLLM 0.33.0, renderers/hf.py: `developer` is `system` for a template that does not know it; templates refuse
others, or leave such a message out.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers that a field may have, ends included."""

    least: float
    most: float = math.inf
    above: float = -math.inf
    """A bound that is not included."""
    is_whole: bool = False
    example: str

    def has(self, value: Any) -> bool:
        """Whether a field may have this value."""
        kinds = int if self.is_whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        return self.least <= value <= self.most and self.above < value < math.inf

    def text(self) -> str:
        """What is allowed."""
        kind = "a whole number" if self.is_whole else "a number"
        start = f"above {self.above:g}" if self.above > -math.inf else f"from {self.least:,g}"
        if self.most == math.inf:
            return f"{kind} {start}"
        return f"{kind} {start}{' and at most' if self.above > -math.inf else ' to'} {self.most:,g}"


_PENALTY: Final = Range(least=-2, most=2, example="0")
RANGES: Final[Mapping[str, Range]] = {
    "temperature": Range(least=0, most=2, example="0"),
    "top_p": Range(least=0, most=1, above=0, example="1"),
    "min_p": Range(least=0, most=1, example="0"),
    "top_k": Range(least=-1, is_whole=True, example="20"),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "repetition_penalty": Range(least=0, above=0, example="1"),
    "min_tokens": Range(least=0, is_whole=True, example="0"),
}
"""Ranges outside of which vLLM refuses a request. Source: vLLM 0.33.0, sampling_params.py; `make vllm-check` asks it."""
# Values of fields that a batch can have, and why no others.
_FIXED: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "stream": ((False, None), "a result is one line with the whole answer"),
    "stream_options": ((None,), "vLLM refuses it without stream, and a result is one line with the whole answer"),
    "n": ((1, None), "a plan counts one answer for each line, and routers before prefill apart refuse several"),
}


class LineError(Exception):
    """What is wrong with a line. `key` is a path in the line's object, or empty. `of_file`: the file is of another kind, so that each of
    its lines has this error.
    """

    def __init__(
        self,
        id_: str,
        key: str = "",
        *,
        found: Any = "",
        allowed: str = "",
        why: str = "",
        write: str = "",
        of_file: bool = False,
    ) -> None:
        super().__init__(id_)
        self.id, self.key, self.found, self.allowed, self.why, self.write = id_, key, found, allowed, why, write
        self.of_file = of_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a run asks of each line, and adds to it. Nothing, for a plan without a stack."""

    url: str | None = None
    """The only path of the API."""
    models: tuple[str, ...] = ()
    """Names that the servers serve, first the model's, which lines get that name none; the others are its adapters'."""
    has_tool_parser: bool = True
    """Whether the servers parse tool calls."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the body that a line gets if it lacks them."""

    def filled(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with what it lacks. Raises LineError for another model."""
        model = body.get("model")
        if isinstance(model, str) and self.models and model not in self.models:
            raise LineError(
                "other-model",
                "body.model",
                found=shortened(model, 60),
                allowed=shortened(", ".join(self.models), 200),
                why="the stack's servers answer 404 to a model that they do not serve",
                write=f'"model": "{nearest(model, self.models) or self.models[0]}", or leave it out',
            )
        added = {"model": self.models[0]} if self.models and model is None else {}
        for name, value in self.defaults.items():
            # A chat's newer name of the same limit.
            limited = name == "max_tokens" and body.get("max_completion_tokens") is not None
            if body.get(name) is None and not limited:
                added[name] = value
        return {**body, **added}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One line's request, and what a plan counts of it."""

    id: str
    url: str
    texts: tuple[str, ...]
    """Texts of the prompt."""
    size: int
    """Bytes of the texts: no byte-level tokenizer makes more tokens."""
    messages: int = 0
    """Chat messages; 0 for a completion."""
    has_tools: bool = False
    most_output: int | None = None
    """Most output tokens; None where the line has no limit of its own."""
    model: str | None = None
    """As the line names it."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """What the servers get."""


Form = Callable[[bytes], Request]
"""Parses one line. Raises LineError."""


_NO_TERMS: Final = Terms()


def openai_request(data: bytes, terms: Terms = _NO_TERMS) -> Request:
    """A line in OpenAI's batch format. Raises LineError."""
    line = _object(data)
    if line and not line.keys() & set(_KEYS):
        raise _not_openai(line)
    _known("", line, _KEYS)
    id_ = _id(line, "custom_id")
    if line.get("method") != "POST":
        raise _wrong("method", line.get("method"), '"POST"', "each line is one POST request", '"method": "POST"')
    url = _url(line)
    if terms.url not in (None, url):
        raise LineError(
            "url-other",
            "url",
            found=url,
            allowed=f"{terms.url}, as batch.endpoint of the stack says",
            why="a stack's batch is one kind of request",
            write="a file for each url, or another batch.endpoint",
        )
    body = line.get("body")
    if not isinstance(body, dict):
        raise _wrong("body", _kind(body), "an object: the request", write='"body": {...}')
    _known("body.", body, sorted(FIELDS[url]))
    for name, (values, why) in _FIXED.items():
        # 1 == True, and 1.0 == 1.
        if name in body and not any(body[name] is value or _same(body[name], value) for value in values):
            raise LineError(
                "not-served",
                f"body.{name}",
                found=_scalar(body[name]),
                allowed=json.dumps(values[0]),
                why=why,
                write="remove it" if name != "n" else "one line for each answer, each with its own custom_id",
            )
    for name, range_ in RANGES.items():
        if body.get(name) is not None and not range_.has(body[name]):
            raise _wrong(
                f"body.{name}",
                _scalar(body[name]),
                range_.text(),
                "vLLM refuses the request",
                f'"{name}": {range_.example}, or remove it',
            )
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise _wrong("body.model", _kind(model), "a text: the model's name", write='"model": "OWNER/NAME"')
    body = terms.filled(body)
    if url == COMPLETIONS:
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise _wrong(
                "body.prompt",
                _kind(prompt),
                "one text",
                "a plan counts one prompt for each line, as text",
                '"prompt": "..."',
            )
        most = _most(body, "max_tokens")
        return _request(
            id_,
            url,
            ("body.prompt", prompt),
            most_output=COMPLETION_TOKENS if most is None else most,
            model=model,
            body=body,
        )
    texts = list(_messages(body))
    if body.get("tools") and body.get("tool_choice") in (None, "auto") and not terms.has_tool_parser:
        raise LineError(
            "tools-unparsed",
            "body.tools",
            found="tools, and tool_choice auto, which is its default",
            allowed="servers that parse tool calls",
            why="vLLM refuses the request without --tool-call-parser",
            write="engine.toolCallParser in the stack file and `pulumi up`, or tool_choice none or required in each line",
        )
    if body.get("tools") is not None:
        texts.append(("body.tools", json.dumps(body["tools"], ensure_ascii=False)))
    most = _most(body, "max_completion_tokens")
    return _request(
        id_,
        url,
        *texts,
        messages=len(body["messages"]),
        has_tools=bool(body.get("tools")),
        most_output=_most(body, "max_tokens") if most is None else most,
        model=model,
        body=body,
    )


def template_form(template: str, id_key: str, terms: Terms = _NO_TERMS) -> Form:
    """Rows of a plain JSONL, each one chat message made by the template, such as `Summarize: {text}`. Raises UserError."""
    try:
        parts = template_parts(template)
    except ValueError as error:
        raise UserError(f"--template {shortened(template)!r}: {error}") from None
    keys = {name for _, name in parts if name is not None}

    def read(data: bytes) -> Request:
        row = _object(data)
        if isinstance(row.get("body"), dict) and not {id_key, *keys} <= row.keys():
            raise LineError(
                "openai-with-template",
                found="a line in OpenAI's batch format",
                allowed="a row for the template",
                why="such a line has its prompt already",
                write="no --template (a stack: no batch.template)",
                of_file=True,
            )
        if lacking := sorted(keys - row.keys()):
            raise LineError(
                "template-key",
                lacking[0],
                found=f"a row with {shortened(', '.join(row), 60)}",
                allowed=f"a row with {', '.join(lacking)}",
                why="--template (a stack: batch.template) uses it",
                write=f"{{{nearest(lacking[0], row) or 'KEY'}}} in the template",
                of_file=True,
            )
        id_ = _id(row, id_key)
        made = []
        for text, name in parts:
            made.append(text)
            if name is None:
                continue
            value = row.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise _wrong(name, _kind(value), "a text or a number: the template uses it", write=f'"{name}": "..."')
            made.append(str(value))
        prompt = "".join(made)
        body = terms.filled({"messages": [{"role": "user", "content": prompt}]})
        most_output = _most(body, "max_tokens")
        return _request(id_, CHAT, ("the prompt", prompt), messages=1, most_output=most_output, body=body)

    return read


def _request(
    id_: str,
    url: str,
    *texts: tuple[str, str],
    messages: int = 0,
    has_tools: bool = False,
    most_output: int | None = None,
    model: str | None = None,
    body: Mapping[str, Any],
) -> Request:
    return Request(
        id=id_,
        url=url,
        texts=tuple(text for _, text in texts),
        size=sum(len(_encoded(key, text)) for key, text in texts),
        messages=messages,
        has_tools=has_tools,
        most_output=most_output,
        model=model,
        body=body,
    )


def _not_openai(line: Mapping[str, Any]) -> LineError:
    """Of a plain row. Its longest text is the likeliest prompt; the id is none, even where the first row has no text."""
    named = [key for key in line if re.fullmatch(r"\w+", key)]
    texts = [key for key in named if key != "id"]
    prompt = max(texts, key=lambda key: len(line[key]) if isinstance(line[key], str) else -1, default="KEY")
    id_ = "id" if "id" in line else next((key for key in named if key != prompt), "KEY")
    return LineError(
        "not-openai",
        found=f"a plain row with {shortened(', '.join(line), 60)}",
        allowed=f"{', '.join(_KEYS)}: OpenAI's batch format",
        why="a template makes a request of a plain row",
        write=f"--template 'Summarize: {{{prompt}}}' --id {id_}; for a stack batch.template and batch.id",
        of_file=True,
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        line = loads(data.decode(), keys_once=True)
    except UnicodeDecodeError as error:
        raise LineError(
            "not-utf8",
            found=f"byte {error.start + 1:,} is not UTF-8",
            allowed="UTF-8",
            write="the file in UTF-8, and not compressed: iconv -f ITS-ENCODING -t utf-8 FILE",
        ) from None
    except KeyTwiceError as error:
        raise LineError(
            "key-twice",
            shortened(str(error), 60),
            found="twice in one object",
            allowed="each key once",
            why="which value counts depends on who reads it",
            write="one of the two",
        ) from None
    except ValueError as error:
        said = f"{error.msg} at character {error.pos + 1:,}" if isinstance(error, json.JSONDecodeError) else "not JSON"
        raise _not_an_object(said) from None
    if not isinstance(line, dict):
        raise _not_an_object(_kind(line))
    return line


def _not_an_object(found: str | None) -> LineError:
    return LineError(
        "not-json",
        found=found,
        allowed="one JSON object on each line",
        write="one object a line; of a JSON array: jq -c '.[]' FILE",
    )


def _id(line: Mapping[str, Any], key: str) -> str:
    id_ = line.get(key)
    if id_ is None or id_ == "":
        raise LineError(
            "id-missing",
            key,
            found=id_ if id_ is None else "an empty text",
            allowed="a text that no other line has",
            why="results come in any order and are found by it",
            write=f'"{key}": "document-1"' + ("" if key == "custom_id" else ", or --id with the key that has it"),
        )
    if not isinstance(id_, str):
        is_number = isinstance(id_, int) and not isinstance(id_, bool)
        if is_number and key != "custom_id":
            return str(id_)
        raise LineError(
            "id-no-text",
            key,
            found=f"{_kind(id_)}{f': {shortened(str(id_), 30)}' if is_number else ''}",
            allowed="a text, in quotes",
            why="OpenAI's format has a text there, and results carry it"
            if key == "custom_id"
            else "results are found by it",
            write=f'"{key}": "{shortened(str(id_), 30) if is_number else "document-1"}"',
        )
    _encoded(key, id_)
    return id_


def _url(line: Mapping[str, Any]) -> str:
    url = line.get("url")
    if url in _URLS:
        return str(url)
    raise LineError(
        "url-not-served",
        "url",
        found=_scalar(url),
        allowed=" or ".join(_URLS),
        why=NO_EMBEDDINGS if url == _EMBEDDINGS else "a batch has these two APIs, and each has fields of its own",
        write="requests of one of these two, with its own body",
    )


def _messages(body: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each text of the messages, with its key."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _wrong(
            "body.messages",
            _kind(messages),
            "a list of messages",
            write='"messages": [{"role": "user", "content": "..."}]',
        )
    for number, message in enumerate(messages):
        key = f"body.messages[{number}]"
        if not isinstance(message, dict):
            raise _wrong(key, _kind(message), "an object", write='{"role": "user", "content": "..."}')
        _known(f"{key}.", message, _MESSAGE_FIELDS)
        if message.get("role") not in ROLES:
            raise _wrong(
                f"{key}.role",
                _scalar(message.get("role")),
                ", ".join(ROLES),
                "a chat template refuses another role, or leaves the message out",
                '"role": "user"',
            )
        content, calls = message.get("content"), message.get("tool_calls")
        if isinstance(content, str):
            yield f"{key}.content", content
        elif isinstance(content, list):
            for place, part in enumerate(content):
                if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                    raise _wrong(
                        f"{key}.content[{place}]",
                        _scalar(part.get("type")) if isinstance(part, dict) else _kind(part),
                        "parts of type text",
                        "the tokens of pictures and sounds cannot be counted without the model's processor",
                        '{"type": "text", "text": "..."}',
                    )
                yield f"{key}.content[{place}].text", part["text"]
        elif content is not None or not calls:
            raise _wrong(f"{key}.content", _kind(content), "a text or a list of text parts", write='"content": "..."')
        if calls:
            yield f"{key}.tool_calls", json.dumps(calls, ensure_ascii=False)


def _most(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(f"body.{name}", _scalar(value), "a whole number from 1", write=f'"{name}": 500')
    return value


def _known(path: str, found: Mapping[str, Any], names: Iterable[str]) -> None:
    known = tuple(names)
    for key in found:
        if key not in known:
            near = nearest(key, known)
            raise LineError(
                "field-unknown",
                f"{path}{shortened(key, 60)}",
                found="a field that a plan does not count" if path == "body." else "another field",
                allowed="a field of vLLM's request that a plan counts" if path == "body." else ", ".join(known),
                why="vLLM ignores a misspelled field in silence, and others change what a request costs"
                if path == "body."
                else "",
                write=f"{near}, or remove it" if near else "remove it",
            )


def _wrong(key: str, found: Any, allowed: str, why: str = "", write: str = "") -> LineError:
    return LineError("value", key, found=found, allowed=allowed, why=why, write=write)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


def _kind(value: Any) -> str | None:
    """The JSON type: a prompt itself is never shown."""
    if value is None:
        return None
    names = {
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]


def _scalar(value: Any) -> Any:
    """A short value, or the type of what is not one."""
    return _kind(value) if isinstance(value, list | dict) else value


def _encoded(key: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LineError(
            "not-utf8",
            key,
            found="half of a surrogate pair",
            allowed="Unicode text",
            why="no tokenizer accepts it",
            write="the character itself, or both halves",
        ) from None
