"""The pull request's report: the verdict in sight, the rest behind folds, valid as Markdown."""

from __future__ import annotations

import re

from fleet.preview.policy import Violation
from fleet.preview.report.comment import markdown_text
from fleet.preview.report.model import Policies
from tests.fleet.preview.sample_report import TOKEN, sample_report

_FOLD = re.compile(r"<details><summary>.*?</summary>\n\n.*?\n\n</details>", re.DOTALL)


def in_sight(text: str) -> str:
    return _FOLD.sub("", text)


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    lines = markdown_text(sample_report()).splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith("| ---")]
    assert len(heads) >= 2
    for head in heads:
        cells = lines[head].count(" | ")
        for line in lines[head + 1 :]:
            if not line.startswith("|"):
                break
            assert len(re.findall(r"(?<!\\)\| ", line.removesuffix(" |"))) == cells + 1, line


def test_what_would_be_markup_is_shown_as_it_is() -> None:
    violation = Violation(policy="p", level="mandatory", urn="urn:x::a|b", message="never <b>bold</b> | or\nbroken")
    text = markdown_text(sample_report(policies=Policies(state="judged", violations=(violation,))))
    row = next(line for line in text.splitlines() if line.startswith("| mandatory"))
    assert "<b>" not in row
    assert "a\\|b" in row
    assert "or broken" in row


def test_a_danger_is_an_alert() -> None:
    request = {"startTime": "2027-01-04T06:00:00Z", "durationDays": 7, "nodes": 12, "totalUsd": 806400.0}
    capacity = {"mode": "calendar", "reservation": "january", "usdPerNodeHour": 400.0, "create": request}
    assert "> [!CAUTION]\n> $806,400.00: " in in_sight(markdown_text(sample_report(capacity=capacity)))


def test_what_is_on_purpose_is_folded_and_what_is_not_is_in_sight() -> None:
    assert "repeats on purpose" not in in_sight(markdown_text(sample_report()))
    own = sample_report(server={"replicas": 1, "profile": "serve-chat", "engine": {"maxNumSeqs": 8000}})
    assert "**Findings (" in in_sight(markdown_text(own))


def test_no_secret_is_printed() -> None:
    assert TOKEN not in markdown_text(sample_report())
