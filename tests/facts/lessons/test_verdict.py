"""A finding's text carries its parts, whatever they say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from facts.finding import Finding
from facts.lessons.verdict import decode, encode

LINES = st.lists(
    st.sampled_from(("", "a", "  ", "why: x", "write: ", "allowed: 2", "\r", "\u2028")) | st.text(max_size=5)
)
TEXTS = LINES.map("\n".join)
SAID = TEXTS.filter(bool)
FINDINGS = st.builds(
    Finding, id=st.just("p"), subject=st.just("urn:x::a"), found=TEXTS, allowed=TEXTS, why=SAID, write=SAID
)


def decoded(text: str, description: str = "") -> Finding:
    return decode(text, policy="p", subject="urn:x::a", severity="error", description=description)


@given(FINDINGS)
def test_a_finding_comes_back_as_it_was(finding: Finding) -> None:
    assert decoded(encode(finding)) == finding
    # The text begins with what the policy asks for.
    assert decoded(f"Names are short.\n{encode(finding)}", description="Names are short.") == finding


@given(FINDINGS)
def test_each_part_begins_a_line_of_its_own(finding: Finding) -> None:
    assert encode(finding).startswith(encode(replace(finding, write="")))
    assert "\nwhy: " in encode(finding)


@given(TEXTS)
def test_another_packs_text_is_what_is_wrong(text: str) -> None:
    if not any(line.startswith(("why: ", "write: ", "allowed: ")) for line in text.split("\n")[1:]):
        assert decoded(text) == Finding(id="p", subject="urn:x::a", found=text)
