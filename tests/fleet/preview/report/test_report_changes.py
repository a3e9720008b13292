"""What a change does, in text, HTML and JSON, beyond the wording that tests/goldens/preview holds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from fleet.preview.compare.changes import PropertyChange
from tests.fleet.preview.sample_changes import compared_report, edited, sample_changes, unchanged_report
from tests.support.formats import html_of, json_of, text_of


def test_a_comparison_without_differences_says_so() -> None:
    shown = text_of(unchanged_report())
    assert "Nothing changes" in shown
    assert "2 unchanged" in shown
    assert "qwen35-server" not in shown.partition("Policies")[0]


# Text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_of_a_comparison_passes_the_margin_but_for_a_path(width: int) -> None:
    for line in text_of(compared_report(), width=width).splitlines():
        path_alone = re.search(r"[~+?!-] \S+\[\S+$", line) or line.strip().startswith(("! vllm-fleet:", "→ "))
        assert len(line) <= width or path_alone, line


def test_what_forces_a_replacement_is_never_among_the_properties_left_out() -> None:
    changes = sample_changes()
    deployment = next(one for one in changes.resources if one.name == "server-deployment")
    many = tuple(edited(f"metadata.labels.l{index:02}", "a", "b") for index in range(40))
    longer = replace(deployment, properties=(*many, *deployment.properties))
    resources = tuple(longer if one is deployment else one for one in changes.resources)
    text = text_of(compared_report(replace(changes, resources=resources)))
    assert "~ spec.selector.matchLabels.app  qwen35-server → qwen35" in text
    assert "… 29 more (--format json has all)" in text


def test_a_long_text_is_cut_around_where_it_differs() -> None:
    before = "x" * 3000 + "old" + "y" * 3000
    changes = sample_changes(outputs=(edited("o", before, before.replace("old", "new")),))
    text = text_of(compared_report(changes))
    assert re.search(r"x{20}oldy{20}", text)
    assert re.search(r"x{20}newy{20}", text)


# JSON -----------------------------------------------------------------------------------------------------------------


def document(**fields: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_of(compared_report(sample_changes(**fields))))
    return loaded


def test_machines_keep_the_keys_they_know_and_get_the_comparison() -> None:
    changes = document()["changes"]
    assert changes["summary"] == {"create": 1, "delete": 1, "replace": 2, "same": 4, "update": 6}
    assert changes["pending"] is True
    assert changes["against"] == "main (1a2b3c4d)"
    assert changes["blastRadius"]["atOnce"] is True
    assert [one["id"] for one in changes["dangers"]] == ["all-replicas-at-once", "weights-volume-lost"]
    dollars = next(one for one in changes["deltas"] if one["id"] == "usd-per-hour")
    assert (dollars["before"], dollars["after"], dollars["beforeIsAtLeast"]) == (392.25, 261.8, True)


def test_machines_get_every_property_whole() -> None:
    step = next(one for one in document()["changes"]["steps"] if one["name"] == "server-deployment")
    assert step["operation"] == "replace"
    assert step["deleteFirst"] is True
    assert step["oldUrn"].endswith("::server-pods")
    assert step["reasons"][0]["certainty"] == "Kubernetes immutable field"
    image = next(one for one in step["properties"] if one["path"].endswith(".image"))
    assert image["before"].endswith("a" * 64)
    assert [one["path"] for one in step["options"]] == ["protect"]
    assert {one["operation"] for one in document()["changes"]["steps"]} == {"create", "update", "replace", "delete"}


# HTML -----------------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_by_itself_and_can_run_nothing() -> None:
    page = html_of(compared_report())
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not re.search(r"<script|<img|<link|<iframe|\bsrc=|@import|url\(", page)
    assert not re.search(r'\son\w+="', page)


EVIL = "</span><script>alert(1)</script>\"'><img src=x>"


def test_values_cannot_become_markup_on_the_page() -> None:
    evil: tuple[PropertyChange, ...] = (edited(EVIL, EVIL, EVIL + "2"), edited("t", "a\n" + EVIL, "b\n" + EVIL))
    page = html_of(compared_report(sample_changes(outputs=evil, effects=(EVIL,), against=EVIL, remarks=(EVIL,))))
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;") >= 6
