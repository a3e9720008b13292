"""The one type of finding."""

from __future__ import annotations

import pytest

from facts.finding import MARKS, Finding, block, headline

TOKEN = "hf_" + "a1B2" * 8


def test_no_text_of_a_finding_carries_a_secret() -> None:
    finding = Finding(id="x", subject=TOKEN, found=TOKEN, allowed=TOKEN, why=f"is {TOKEN}", write=TOKEN)
    assert TOKEN not in finding.text() + str(finding.as_json())
    assert finding.why == "is [secret]"


def test_long_texts_are_shortened() -> None:
    assert len(Finding(id="x", subject="k" * 5000, found="v" * 50_000).text()) < 5000


def test_json_has_every_key() -> None:
    given = Finding(id="x", subject="k", found=None).as_json()
    assert list(given) == ["id", "subject", "severity", "found", "allowed", "why", "write"]
    assert (given["severity"], given["found"], given["why"]) == ("error", None, "")


@pytest.mark.parametrize(
    ("found", "head"), [(None, "k is missing"), ("", "k"), (True, "k: true"), (["a"], 'k: ["a"]'), ("0.9", "k: 0.9")]
)
def test_headline_names_the_subject_and_what_was_found(found: object, head: str) -> None:
    assert headline(Finding(id="x", subject="k", found=found)) == head


def test_text_has_the_details_in_order() -> None:
    lines = Finding(id="x", subject="k", found=1, write="k: 2", why="w", allowed="2").text().splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["✗ k", "allowed", "why", "write"]


def test_only_errors_block() -> None:
    assert [severity for severity in MARKS if block([Finding(id="x", subject="k", severity=severity)])] == ["error"]
