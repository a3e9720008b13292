"""What a line asks, and what is wrong with it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.finding import Finding
from facts.user_error import UserError
from fleet.batch.requests import CHAT, RANGES, ROLES, LineError, Range, Terms, openai_request, template_form
from tests.fleet.batch.made import chat, completion
from tests.support.rows import each_row

TERMS = Terms(url=CHAT, models=("m", "m-law"), has_tool_parser=False)
"""Of a stack with an adapter."""
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def _bad(line: Any, terms: Terms | None = None) -> LineError:
    with pytest.raises(LineError) as caught:
        openai_request(line if isinstance(line, bytes) else json.dumps(line).encode(), terms or Terms())
    return caught.value


@each_row(
    "line, id_",
    [
        (chat("a", "x", model="gpt-9"), "other-model"),
        (completion("a", "x"), "url-other"),
        ({**chat("a", "x"), "url": "/v1/responses"}, "url-not-served"),
        (chat("a", "x", tools=TOOLS), "tools-unparsed"),
        (chat("a", "x", tools=TOOLS, tool_choice="auto"), "tools-unparsed"),
    ],
)
def test_what_the_stack_refuses_of_each_line_is_told_before(line: Any, id_: str) -> None:
    assert _bad(line, TERMS).id == id_


@each_row(
    "body",
    [
        {"model": "m-law"},
        {"tools": TOOLS, "tool_choice": "none"},
        {"tools": TOOLS, "tool_choice": "required"},
        {"tools": []},
        {"continue_final_message": True, "add_generation_prompt": False},
    ],
)
def test_what_the_stack_serves_is_no_bad_line(body: dict[str, Any]) -> None:
    assert openai_request(json.dumps(chat("a", "x", **body)).encode(), TERMS).body["model"] in TERMS.models


@each_row(
    "line, id_, key",
    [
        (b"\xff\xfe", "not-utf8", ""),
        (b"{", "not-json", ""),
        (b"NaN", "not-json", ""),
        (b"[" * 5000, "not-json", ""),
        (b"[]", "not-json", ""),
        (b"\xef\xbb\xbf{}", "not-json", ""),
        ({**chat("a", "x"), "more": 1}, "field-unknown", "more"),
        ({}, "id-missing", "custom_id"),
        (chat("", "x"), "id-missing", "custom_id"),
        ({**chat("a", "x"), "custom_id": 7}, "id-no-text", "custom_id"),
        ({**chat("a", "x"), "custom_id": 10**4000}, "id-no-text", "custom_id"),
        ({**chat("a", "x"), "custom_id": ["x"]}, "id-no-text", "custom_id"),
        ({"id": 1, "text": "x"}, "not-openai", ""),
        (b'{"custom_id": "a", "custom_id": "b"}', "key-twice", "custom_id"),
        (b'{"custom_id": "a", "body": {"n": 1, "n": 1}}', "key-twice", "n"),
        (chat("\ud800", "x"), "not-utf8", "custom_id"),
        ({**chat("a", "x"), "method": "GET"}, "value", "method"),
        ({**chat("a", "x"), "url": "/v1/embeddings"}, "url-not-served", "url"),
        ({**chat("a", "x"), "url": ["/v1/completions"]}, "url-not-served", "url"),
        ({**chat("a", "x"), "body": None}, "value", "body"),
        (chat("a", "x", max_token=5), "field-unknown", "body.max_token"),
        (chat("a", "x", prompt="x"), "field-unknown", "body.prompt"),
        (chat("a", "x", use_beam_search=True), "field-unknown", "body.use_beam_search"),
        (chat("a", "x", stream=True), "not-served", "body.stream"),
        (chat("a", "x", stream=0), "not-served", "body.stream"),
        (chat("a", "x", n=2), "not-served", "body.n"),
        (chat("a", "x", n=True), "not-served", "body.n"),
        (chat("a", "x", model=1), "value", "body.model"),
        (chat("a", "x", max_tokens=0), "value", "body.max_tokens"),
        (chat("a", "x", max_tokens=True), "value", "body.max_tokens"),
        (chat("a", "x", max_tokens=1.5), "value", "body.max_tokens"),
        (chat("a", "x", messages=[]), "value", "body.messages"),
        (chat("a", "x", messages=["x"]), "value", "body.messages[0]"),
        (chat("a", "x", messages=[{"content": "x"}]), "value", "body.messages[0].role"),
        (chat("a", "x", messages=[{"role": "foo", "content": "x"}]), "value", "body.messages[0].role"),
        (chat("a", "x", messages=[{"role": ["user"], "content": "x"}]), "value", "body.messages[0].role"),
        (chat("a", "x", messages=[{"role": "user"}]), "value", "body.messages[0].content"),
        (chat("a", "x", temperature=5), "value", "body.temperature"),
        (chat("a", "x", temperature=True), "value", "body.temperature"),
        (chat("a", "x", temperature="0"), "value", "body.temperature"),
        (chat("a", "x", top_p=0), "value", "body.top_p"),
        (chat("a", "x", frequency_penalty=-2.1), "value", "body.frequency_penalty"),
        (chat("a", "x", top_k=1.5), "value", "body.top_k"),
        (completion("a", "x", repetition_penalty=0), "value", "body.repetition_penalty"),
        (completion("a", "x", stream_options={"include_usage": True}), "not-served", "body.stream_options"),
        (chat("a", "x", messages=[{"role": "user", "text": "x"}]), "field-unknown", "body.messages[0].text"),
        (
            chat("a", "x", messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
            "value",
            "body.messages[0].content[0]",
        ),
        (chat("a", "half \ud83d"), "not-utf8", "body.messages[0].content"),
        (completion("a", "x", prompt=["x", "y"]), "value", "body.prompt"),
        (completion("a", "x", max_completion_tokens=5), "field-unknown", "body.max_completion_tokens"),
    ],
)
def test_a_bad_line_is_told_by_key(line: Any, id_: str, key: str) -> None:
    error = _bad(line)
    assert (error.id, error.key) == (id_, key)
    assert error.allowed
    assert error.write


def test_no_prompt_is_shown() -> None:
    error = _bad(chat("a", "x", messages=[{"role": "user", "content": {"private": "words"}}]))
    assert "private" not in str(error.found)


@each_row(
    "line, of_file, write",
    [
        ({"id": "a", "year": 1999, "text": "the law " * 20}, True, "--template 'Summarize: {text}' --id id"),
        ({"id": "a", "text": ""}, True, "--template 'Summarize: {text}' --id id"),
        ({**chat("a", "x"), "custom_id": 7}, False, '"custom_id": "7"'),
        (chat("a", "x", max_token=5), False, "max_tokens"),
    ],
)
def test_a_bad_line_gets_what_to_write(line: Any, of_file: bool, write: str) -> None:
    assert (_bad(line).of_file, write in _bad(line).write) == (of_file, True)


def test_a_line_in_openais_format_needs_no_template() -> None:
    with pytest.raises(LineError) as caught:
        template_form("{text}", "id")(json.dumps(chat("a", "x")).encode())
    assert caught.value.of_file
    assert "no --template" in caught.value.write


def test_a_row_may_have_a_body_of_its_own() -> None:
    assert template_form("{text}", "id")(b'{"id": "a", "text": "x", "body": {}}').texts == ("x",)


@each_row("name, range_", RANGES.items())
def test_the_ends_of_a_range_are_served_and_the_example_too(name: str, range_: Range) -> None:
    ends = [end for end in (range_.least, range_.most) if range_.above < end < math.inf]
    for value in (*ends, json.loads(range_.example), None):
        body = openai_request(json.dumps(chat("a", "x", **{name: value})).encode()).body
        assert body[name] == value


@each_row("role", ROLES)
def test_roles_of_chat_templates_are_served(role: str) -> None:
    assert openai_request(json.dumps(chat("a", "", messages=[{"role": role, "content": "x"}])).encode()).texts == ("x",)


@each_row(
    "line, texts, most_output",
    [
        (chat("a", "x"), ("x",), None),
        (chat("a", "x", n=1, stream=False, max_tokens=5), ("x",), 5),
        (chat("a", "x", max_tokens=5, max_completion_tokens=7), ("x",), 7),
        (chat("a", "x", tools=[{"type": "function"}]), ("x", '[{"type": "function"}]'), None),
        (chat("a", "x", messages=[{"role": "user", "content": [{"type": "text", "text": "y"}]}]), ("y",), None),
        (completion("a", "x"), ("x",), 16),
        (completion("a", "x", max_tokens=5), ("x",), 5),
    ],
)
def test_the_texts_of_the_prompt_and_the_limit_of_its_answer(line: Any, texts: Any, most_output: int | None) -> None:
    found = openai_request(json.dumps(line).encode())
    assert (found.texts, found.most_output) == (texts, most_output)
    assert found.size == sum(map(len, texts))


def test_a_template_makes_a_row_a_chat() -> None:
    form = template_form("Summarize {{this}}: {text} ({year})", "key")
    found = form(b'{"key": 3, "text": "a law", "year": 1999, "more": []}')
    assert (found.id, found.texts, found.messages) == ("3", ("Summarize {this}: a law (1999)",), 1)


@each_row("template", ["no key", "{", "{}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}", "}"])
def test_a_template_names_keys(template: str) -> None:
    with pytest.raises(UserError, match="--template"):
        template_form(template, "id")


def test_a_key_that_no_row_has_is_told_once_with_the_nearest() -> None:
    with pytest.raises(LineError) as caught:
        template_form("Summarize: {txt}", "id")(b'{"id": "a", "text": "x"}')
    assert caught.value.of_file
    assert caught.value.write.startswith("{text}")


@each_row("row, key", [(b'{"id": "a"}', "text"), (b'{"text": "x"}', "id"), (b'{"id": "a", "text": ["x"]}', "text")])
def test_a_row_without_a_key_of_the_template_is_told(row: bytes, key: str) -> None:
    with pytest.raises(LineError) as caught:
        template_form("{text}", "id")(row)
    assert caught.value.key == key


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_LINES = st.fixed_dictionaries(
    {},
    optional={
        "custom_id": _JSON,
        "method": st.just("POST") | _JSON,
        "url": st.sampled_from(["/v1/chat/completions", "/v1/completions"]) | _JSON,
        "body": _JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "messages": _JSON
                | st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]), _JSON), max_size=2),
                "prompt": _JSON,
                "n": _JSON,
                "stream": _JSON,
                "max_tokens": _JSON,
                "tools": _JSON,
            },
        ),
    },
)


@given(_LINES)
def test_any_object_is_a_request_or_told(line: Any) -> None:
    try:
        openai_request(json.dumps(line).encode())
    except LineError as error:
        told = Finding(
            id=error.id, subject="line 1", found=error.found, allowed=error.allowed, why=error.why, write=error.write
        )
        assert told.text()
