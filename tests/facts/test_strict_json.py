"""Only JSON is read as JSON, and nothing of it ends in another exception than ValueError."""

from __future__ import annotations

import pytest

from facts.strict_json import loads


@pytest.mark.parametrize(
    "text",
    [
        "Infinity",
        '{"a": -Infinity}',
        "NaN",
        "[" * 200 + "]" * 200,
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
        "",
        b"\xff",
    ],
    ids=lambda text: repr(text[:9]),
)
def test_what_is_no_json_or_too_deep_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        loads(text)


def test_json_is_read() -> None:
    assert loads('{"a": [1, 2.5, null, {"b": "c"}]}') == {"a": [1, 2.5, None, {"b": "c"}]}
