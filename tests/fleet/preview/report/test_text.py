"""The terminal's report: everything in it, nothing beyond the margin, no secret."""

from __future__ import annotations

import re
from typing import Any

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies
from fleet.preview.report.wording import format_no_figure
from tests.fleet.preview.sample_report import sample_report
from tests.support.formats import text_of
from tests.support.rows import each_row


def test_a_node_count_that_was_never_measured_has_no_figure_but_the_models_estimate_under_its_own_name() -> None:
    text = " ".join(text_of(sample_report(server={"replicas": 10})).split())
    assert "for 10 nodes" in text
    assert "1, 2, 4, 8 and 12 nodes" in text
    assert text.count("tok/s total") == 1
    assert "(predicted): " in text


def test_a_paused_stack_has_neither_figure_nor_estimate() -> None:
    assert "tok/s total" not in text_of(sample_report(server={"replicas": 0}))


def test_another_profile_is_unproven_and_the_nearest_row_keeps_its_label() -> None:
    report = sample_report(server={"replicas": 12, "profile": "serve-chat"})
    nearest = report.figures.match.figure
    assert nearest is not None
    assert report.figures.usd_per_million_tokens is None
    text = " ".join(text_of(report).split())
    assert "unproven: " in text
    assert f"{nearest.title}, 1,103,941 tok/s total" in text
    assert f"({nearest.label})" in text
    assert "a million tokens: unknown" in text


def test_an_unpriced_mode_says_why() -> None:
    report = sample_report(capacity={"mode": "flex-start", "runDurationSeconds": 86400})
    (why,) = (item.reason for item in report.figures.bill.items if item.id == "nodes")
    assert f"nodes: {why}" in " ".join(text_of(report).split())


def test_a_danger_stands_above_the_tree() -> None:
    gateway = {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed"}
    text = text_of(sample_report(gateway=gateway))
    assert text.index("!! The gateway") < text.index(" + Stack")


def test_policies_are_told_in_each_state() -> None:
    mandatory = Violation(
        policy="no-public-service", level="mandatory", urn="urn:x::server", message="type\nLoadBalancer"
    )
    advisory = Violation(policy="budget", level="advisory", urn="", message="no budget")
    judged = text_of(sample_report(policies=Policies(state="judged", violations=(advisory, mandatory))))
    assert "1 blocking violation, 1 warning" in judged
    assert judged.index("(error, no-public-service)") < judged.index("(warning, budget)")
    assert "pulumi preview" not in judged  # the violation comes first
    kept = text_of(sample_report(policies=Policies(state="judged")))
    assert "no violations" in kept
    assert "→ pulumi preview --stack test" in kept
    assert "--no-policy" in text_of(sample_report(policies=Policies(state="skipped")))
    assert "policy/" in text_of(sample_report())


@each_row(
    ("sections", "node_counts"),
    [
        ({"server": {"replicas": 10}}, True),
        ({"server": {"replicas": 10}, "endpoint": {"kind": "leastRequest"}}, False),
        ({"server": {"replicas": 0}}, False),
    ],
)
def test_node_counts_with_a_figure_are_named_where_there_are_any(sections: dict[str, Any], node_counts: bool) -> None:
    report = sample_report(**sections)
    assert report.figures.match.figure is None
    told = format_no_figure(report)
    assert ("1, 2, 4, 8 and 12 nodes" in told) is node_counts
    assert not re.search(r"\b(no number of|0) nodes", told)
