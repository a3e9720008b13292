"""The facts beside a resource: right for what our program makes, silent where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.preview.record.values import UNKNOWN, Secret, transform
from fleet.preview.report.resource_facts import _ROWS, _SPECIAL, cloud_name, facts_of, kind_of
from tests.fleet.preview.sample_report import resource
from tests.support.rows import each_row
from tests.support.stacks import recorded_stack


def facts(stack: str, kind: str) -> list[tuple[str, ...]]:
    return [facts_of(one) for one in recorded_stack(stack, "preview").resources if kind_of(one.type) == kind]


def test_the_network_shows_its_ranges() -> None:
    assert ("10.0.0.0/20", "pods 10.64.0.0/14", "services 10.32.0.0/20") in facts("gateway", "compute.Subnetwork")
    assert ("10.8.0.0/23", "proxies only") in facts("gateway", "compute.Subnetwork")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"spec": {"replicas": 1}}, "1 replica"),
        ({"spec": {"replicas": 0}}, "0 replicas"),
        ({"spec": {}}, "replicas managed externally"),
    ],
)
def test_replicas_are_counted_or_left_to_others(inputs: dict[str, Any], expected: str) -> None:
    assert facts_of(resource("kubernetes:apps/v1:Deployment", "server", inputs=inputs)) == (expected,)


def test_an_unknown_number_of_replicas_is_not_said_to_be_left_to_others() -> None:
    unknown = resource("kubernetes:apps/v1:Deployment", "server", inputs={"spec": {"replicas": UNKNOWN}})
    assert facts_of(unknown) == ()


@each_row("stack", ["spot", "gateway"])
@each_row("leaf", [UNKNOWN, Secret("never shown"), None, "x", 1])
def test_whatever_a_property_holds_no_kind_fails_and_no_secret_shows(stack: str, leaf: Any) -> None:
    for one in recorded_stack(stack, "preview").resources:
        changed = replace(one, inputs=transform(dict(one.inputs), lambda _: leaf))
        assert "never shown" not in " ".join((cloud_name(changed), *facts_of(changed)))


@each_row("kind", sorted({*_ROWS, *_SPECIAL}))
@each_row("inputs", [{}, {"spec": UNKNOWN, "metadata": UNKNOWN}, {"spec": "x"}, {"spec": []}])
def test_no_kind_needs_a_property(kind: str, inputs: dict[str, Any]) -> None:
    module, _, name = kind.rpartition(".")
    token = f"gcp:{module}/x:{name}" if module else f"kubernetes:x/v1:{name}"
    assert all(isinstance(fact, str) for fact in facts_of(resource(token, "thing", inputs=inputs)))
