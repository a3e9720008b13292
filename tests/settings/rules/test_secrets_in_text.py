from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from settings.rules.secrets_in_text import FORMS, SECRET_TEXT, Form, form_of, without_secrets


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_whatever_has_a_secrets_form_has_one_of_its_marks(form: Form) -> None:
    """A text without any mark is not searched: a form whose matches can lack theirs would never be found."""

    @settings(max_examples=25, deadline=None)
    @given(st.from_regex(form.pattern))
    def held(text: str) -> None:
        assert form_of(text)
        assert SECRET_TEXT in without_secrets(text)

    held()
