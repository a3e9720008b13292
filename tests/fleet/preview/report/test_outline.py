"""What stands on the first screen, what is folded, and the document for machines."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies, Report
from fleet.preview.report.outline import preview_outline
from fleet.preview.report.wording import format_no_figure
from fleet.report.outline import Next, Section
from tests.fleet.preview.sample_changes import JUDGED, SWITCHED_OFF, compared_report, edited, sample_changes
from tests.fleet.preview.sample_report import TOKEN, sample_recording, sample_report
from tests.support.formats import html_of, json_of, markdown_of, text_of
from tests.support.rows import each_row


def commands(report: Report) -> list[str]:
    sections = [one for one in preview_outline(report).body if isinstance(one, Section)]
    return [step.command for one in sections if one.title == "Next" for step in one.body if isinstance(step, Next)]


def test_what_blocks_comes_before_what_to_type_next() -> None:
    mandatory = Violation(
        policy="no-public-service", level="mandatory", urn="urn:x::server", message="type\nLoadBalancer"
    )
    advisory = Violation(policy="budget", level="advisory", urn="", message="no budget")
    blocked = sample_report(policies=Policies(state="judged", violations=(advisory, mandatory)), stand_in_project=True)
    outline = preview_outline(blocked)
    assert outline.verdict.startswith("blocked by no-public-service")
    assert outline.findings[0].id == "no-public-service"
    assert commands(blocked) == []
    judged = commands(sample_report(policies=Policies(state="judged")))
    assert judged[-1].startswith("pulumi preview --stack test --policy-pack policy")
    assert len(commands(sample_report(stand_in_project=True))) == 4


@each_row(("state", "verdict"), [("judged", "not blocked"), ("skipped", "policies not checked")])
def test_the_verdict_says_whether_policies_were_asked(state: Any, verdict: str) -> None:
    assert preview_outline(sample_report(policies=Policies(state=state))).verdict == verdict


def test_what_is_switched_off_is_in_the_verdict() -> None:
    outline = preview_outline(sample_report(policies=SWITCHED_OFF))
    assert (outline.tone, "3 of 4 policies asked" in outline.verdict) == ("warn", True)


@each_row(
    ("sections", "told", "node_counts", "is_estimated"),
    [
        ({"server": {"replicas": 10}}, "1, 2, 4, 8 and 12 nodes", True, True),
        ({"server": {"replicas": 10}, "endpoint": {"kind": "leastRequest"}}, "", False, True),
        ({"server": {"replicas": 0}}, "", False, False),
        ({"server": {"replicas": 12, "profile": "serve-chat"}}, "1,103,941 tok/s total", True, True),
    ],
)
def test_a_shape_without_a_figure_has_the_models_estimate_under_its_own_name(
    sections: dict[str, Any], told: str, node_counts: bool, is_estimated: bool
) -> None:
    report = sample_report(**sections)
    text = " ".join(text_of(report, details=True).split())
    assert report.figures.usd_per_million_tokens is None
    assert "a million tokens: unknown" in text
    assert ("model's estimate" in text) is is_estimated
    assert told in text
    assert ("8 and 12 nodes" in format_no_figure(report)) is node_counts
    assert not re.search(r"\b(no number of|0) nodes", format_no_figure(report))


def test_what_forces_a_replacement_is_never_among_the_properties_left_out() -> None:
    changes = sample_changes()
    deployment = next(one for one in changes.resources if one.name == "server-deployment")
    many = tuple(edited(f"metadata.labels.l{index:02}", "a", "b") for index in range(60))
    longer = replace(deployment, properties=(*many, *deployment.properties))
    resources = tuple(longer if one is deployment else one for one in changes.resources)
    text = markdown_of(compared_report(replace(changes, resources=resources)))
    assert "spec.selector.matchLabels.app: qwen35-server" in text
    assert "… 25 more" in text


def test_the_price_of_machine_priorities_says_which_it_is() -> None:
    priorities = {
        "mode": "compute-class",
        "reservation": {"name": "b200", "nodes": 2},
        "spot": True,
        "flexStartSeconds": None,
        "usdPerNodeHour": 60,
    }
    said = " ".join(text_of(sample_report(capacity=priorities)).split())
    assert "dearest machine priority (reservation $60.00, spot $34.07)" in said
    assert "dearest" not in text_of(sample_report())


# The page -------------------------------------------------------------------------------------------------------------

EVIL = "</span><script>alert(1)</script>\"'><img src=x>"


def test_the_page_is_whole_by_itself_and_no_value_becomes_markup() -> None:
    evil = (edited(EVIL, EVIL, EVIL + "2"), edited("t", "a\n" + EVIL, "b\n" + EVIL))
    page = html_of(compared_report(sample_changes(outputs=evil, effects=(EVIL,), against=EVIL, remarks=(EVIL,))))
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not re.search(r"<script|<img|<link|<iframe|@import|url\(", page)
    assert page.count("&lt;script&gt;") >= 6


# The document ---------------------------------------------------------------------------------------------------------


def document(report: Report) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_of(report))
    return loaded


def test_the_keys_are_the_contract() -> None:
    given = document(sample_report())
    contract = "version project stack mode resources outputs violations changes plan findings"
    assert set(given) == set(contract.split())
    assert {tuple(one) for one in given["resources"]} == {
        ("urn", "type", "name", "parent", "provider", "dependencies", "protect", "inputs")
    }
    assert len(given["resources"]) == 11  # a stack that is only read is recorded too
    assert given["changes"] is None
    assert {one["policy"] for one in document(sample_report(policies=JUDGED))["violations"]} == {
        one.policy for one in JUDGED.violations
    }


@pytest.mark.parametrize("mode", ["preview", "known"])
def test_secrets_and_unknown_values_are_named_not_shown(mode: Any) -> None:
    text = json_of(sample_report(recording=sample_recording(mode)))
    assert TOKEN not in text
    given = json.loads(text)
    secret = next(one for one in given["resources"] if one["type"] == "kubernetes:core/v1:Secret")
    assert secret["inputs"]["stringData"] == "[secret]"
    assert given["outputs"]["kubeconfig"] == "[secret]"
    assert (given["outputs"]["address"] == "[unknown]") is (mode == "preview")
    assert given["mode"] == mode


def test_price_and_figure_come_with_their_source() -> None:
    plan = document(sample_report())["plan"]
    assert (plan["match"]["kind"], plan["tokensPerSecond"]) == ("equivalent", 1_103_941)
    assert plan["match"]["figure"]["label"] == "published, vLLM 0.18.0"
    assert all(one["argument"] for one in plan["match"]["differences"])
    nodes = next(item for item in plan["bill"]["items"] if item["id"] == "nodes")
    assert (nodes["quantity"], nodes["unitPriceUsd"]) == (12, pytest.approx(34.0736))
    assert (nodes["price"]["region"], nodes["price"]["date"]) == ("europe-west4", "2026-07-03")
    assert plan["usdPerHourIsAtLeast"] is True
    assert all(item["reason"] for item in plan["bill"]["items"] if item["unitPriceUsd"] is None)


def test_machines_get_the_comparison_and_every_property_whole() -> None:
    changes = document(compared_report())["changes"]
    assert changes["summary"] == {"create": 1, "delete": 1, "replace": 2, "same": 4, "update": 6}
    assert (changes["pending"], changes["against"]) == (True, "main (1a2b3c4d)")
    assert changes["blastRadius"]["gpusRestarted"] == 64
    assert [one["id"] for one in changes["dangers"]] == ["all-replicas-at-once", "weights-volume-lost"]
    dollars = next(one for one in changes["deltas"] if one["id"] == "usd-per-hour")
    assert (dollars["before"], dollars["after"], dollars["beforeAtLeast"]) == (392.25, 261.8, True)
    step = next(one for one in changes["resources"] if one["name"] == "server-deployment")
    assert (step["operation"], step["deleteFirst"]) == ("replace", True)
    image = next(one for one in step["properties"] if one["path"].endswith(".image"))
    assert image["before"].endswith("a" * 64)
