"""What the report says, before it is laid out."""

from __future__ import annotations

import pytest

from fleet.preview.record.recording import Diagnostic, Recording
from fleet.preview.report.change_tree import created_tree
from fleet.preview.report.resource_facts import kind_of
from fleet.report.outline import Branch
from fleet.report.words import CLASS_RESERVATION
from settings.load import check
from tests.fleet.preview.sample_report import resource, sample_recording, sample_report
from tests.support.settings import make_settings


def lines(node: Branch, depth: int = 0) -> list[str]:
    shown = [f"{'  ' * depth}{node.kind} {node.name}: {node.facts}".removesuffix(": ")]
    return shown + [line for child in node.children for line in lines(child, depth + 1)]


def test_every_registration_is_a_create_and_a_stack_that_is_only_read_is_none() -> None:
    report = sample_report()
    assert len(report.created) == 10
    assert not [one for one in report.created if "StackReference" in one.urn]
    assert report.counted == {"resource": 6, "component": 2, "provider": 1, "stack": 1}


def test_a_resource_below_another_resource_stays_in_the_tree() -> None:
    recording = sample_recording()
    parent = next(one for one in recording.resources if one.name == "platform-iam")
    child = resource("gcp:projects/iAMMember:IAMMember", "member", parent, inputs={"role": "roles/viewer"})
    assert "      projects.IAMMember member: viewer" in lines(created_tree(sample_recording("preview", child)))


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("kubernetes:apps/v1:Deployment", "Deployment"),
        ("kubernetes:helm.sh/v3:Release", "Release"),
        ("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", "HTTPRoute"),
        ("gcp:compute/network:Network", "compute.Network"),
        ("vllm-fleet:infra:Network", "Network"),
        ("pulumi:providers:kubernetes", "kubernetes provider"),
        ("pulumi:pulumi:Stack", "Stack"),
    ],
)
def test_a_type_is_named_as_its_readers_know_it(token: str, kind: str) -> None:
    assert kind_of(token) == kind


def test_a_compute_class_reservation_is_said_to_be_paid_anyway() -> None:
    capacity = {"mode": "compute-class", "reservation": {"name": "b200-production"}}
    assert CLASS_RESERVATION in sample_report(capacity=capacity).remarks
    assert CLASS_RESERVATION not in sample_report(capacity={"mode": "compute-class"}).remarks
    sized = capacity | {"reservation": {"name": "b200-production", "nodes": 3}}
    assert CLASS_RESERVATION not in sample_report(capacity=sized).remarks


def test_external_replicas_are_not_counted() -> None:
    report = sample_report(server={"replicas": "external", "profile": "serve-chat"})
    assert report.fleet.nodes is None
    assert report.fleet.gpus is None
    assert any("externally" in remark for remark in report.remarks)


def test_a_paused_fleet_says_what_stays() -> None:
    report = sample_report(server={"replicas": 0, "profile": "serve-chat"})
    assert any("paused" in remark for remark in report.remarks)


@pytest.mark.parametrize(("replicas", "nodes", "is_said"), [(0, None, True), (0, 12, False), (12, None, False)])
def test_a_paused_reservation_of_unknown_size_is_said_to_be_paid(
    replicas: int, nodes: int | None, is_said: bool
) -> None:
    sized = {} if nodes is None else {"nodes": nodes}
    report = sample_report(
        capacity={"mode": "reservation", "name": "b200-production", **sized},
        server={"replicas": replicas, "profile": "serve-chat"},
    )
    assert any("capacity.nodes" in remark for remark in report.remarks) is is_said


def test_a_gateway_on_the_internet_is_headlined() -> None:
    gateway = {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed"}
    (danger,) = sample_report(gateway=gateway).dangers
    assert "gateway" in danger
    assert "API key" in danger


def test_findings_are_not_repeated_as_the_programs_warnings() -> None:
    finding = next(one for one in check(make_settings()) if one.severity == "deliberate")
    base = sample_recording()
    logged = Diagnostic(severity="warning", message=" ".join(finding.text().split()))
    recording = Recording(
        project=base.project,
        stack=base.stack,
        mode=base.mode,
        resources=base.resources,
        outputs=base.outputs,
        diagnostics=(*base.diagnostics, logged),
    )
    (diagnostic,) = sample_report(recording=recording).diagnostics
    assert diagnostic.message.startswith("the token")
