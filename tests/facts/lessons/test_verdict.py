"""A verdict's text carries its parts, whatever they say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from facts.lessons.verdict import Verdict, decode, encode

LINES = st.lists(
    st.sampled_from(("", "a", "  ", "Why: x", "Fix: ", "At stake: $2", "\r", "\u2028")) | st.text(max_size=5)
)
TEXTS = LINES.map("\n".join)
SAID = TEXTS.filter(bool)
VERDICTS = st.builds(Verdict, what=TEXTS, why=SAID, fix=SAID, at_stake=TEXTS)


@given(VERDICTS)
def test_a_verdict_comes_back_as_it_was(verdict: Verdict) -> None:
    assert decode(encode(verdict)) == verdict
    # Pulumi's SDK begins the text with what the policy asks for.
    assert decode(f"Names are short.\n{encode(verdict)}", description="Names are short.") == verdict


@given(VERDICTS)
def test_each_part_begins_a_line_of_its_own(verdict: Verdict) -> None:
    assert encode(verdict).startswith(encode(replace(verdict, at_stake="")))
    assert "\nWhy: " in encode(verdict)


@given(TEXTS)
def test_another_packs_text_is_what_is_wrong(text: str) -> None:
    if not any(line.startswith(("Why: ", "Fix: ", "At stake: ")) for line in text.split("\n")[1:]):
        assert decode(text) == Verdict(what=text)
