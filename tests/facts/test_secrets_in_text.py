from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.secrets_in_text import FORMS, SECRET_TEXT, Form, form_of, without_secrets


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_whatever_has_a_secrets_form_is_found(form: Form) -> None:
    @given(st.from_regex(form.pattern))
    def held(text: str) -> None:
        assert form_of(text)
        assert SECRET_TEXT in without_secrets(text)

    held()


@pytest.mark.parametrize(
    "text",
    [
        "ab" * 32,
        "/usr/local/lib/python3.12/site-packages",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert without_secrets(text) == text
