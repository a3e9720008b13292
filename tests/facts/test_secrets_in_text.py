from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.secrets_in_text import FORMS, SECRET_TEXT, Form, form_of, secrets_in, without_secrets


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_whatever_has_a_secrets_form_has_one_of_its_marks(form: Form) -> None:
    """A text without any mark is not searched: a form whose matches can lack theirs would never be found."""

    @given(st.from_regex(form.pattern))
    def held(text: str) -> None:
        assert form_of(text)
        assert SECRET_TEXT in without_secrets(text)

    held()


@pytest.mark.parametrize("before", ["", " ", "a ", "ab "])
@pytest.mark.parametrize("times", [1, 2])
def test_a_secret_is_found_through_base64_wherever_its_groups_begin(before: str, times: int) -> None:
    text = f"{before}hf_{'aBcDeFgH' * 5}"
    for _ in range(times):
        text = base64.b64encode(text.encode()).decode()
    assert without_secrets(f"x: {text}.") == f"x: {SECRET_TEXT}."
    assert [found.path for found in secrets_in({"a": text})] == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(b"a picture, harmless in every way").decode(),
        "ab" * 32,
        "/usr/local/lib/python3.12/site-packages",
    ],
)
def test_what_encodes_no_secret_is_left_alone(text: str) -> None:
    assert without_secrets(text) == text
