"""The simulated Google Cloud under the real engine: what it refuses, replaces, and finds changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.providers.base import Served
from lab.providers.google.cloud import CLUSTER
from lab.providers.google.provider import Google
from tests.support.driven_pulumi import DrivenPulumi, driven
from tests.support.refusing_cloud import RefusingCloud

pytestmark = pytest.mark.slow

PROJECT = "name: fixture\nruntime: python\n"
PROGRAM = """
import pulumi

config = pulumi.Config()
apis = [
    pulumi.CustomResource("gcp:projects/service:Service", name, {"service": f"{name}.googleapis.com"})
    for name in ("compute", "container")
]
needed = pulumi.ResourceOptions(depends_on=apis)
inputs = {"name": "net", "project": "my-project", "autoCreateSubnetworks": False, "routingMode": "REGIONAL"}
inputs |= config.get_object("changed") or {}
pulumi.CustomResource("gcp:compute/network:Network", "net", inputs, needed)
if protected := config.get_object("protected"):
    inputs = {"name": "cluster", "location": "europe-west4", "enableAutopilot": True, **protected}
    pulumi.CustomResource("gcp:container/cluster:Cluster", "cluster", inputs, needed)
"""
NETWORK = "gcp:compute/network:Network"
NET = f"urn:pulumi:dev::fixture::{NETWORK}::net"
NOW = "--skip-preview"


@pytest.fixture
def cloud() -> RefusingCloud:
    return RefusingCloud()


@pytest.fixture
def pulumi(tmp_path: Path, cloud: RefusingCloud) -> Iterator[DrivenPulumi]:
    with Served(Google(cloud)) as served:
        found = driven(tmp_path, PROJECT, PROGRAM, served.ports)
        assert found.run("config", "set", "gcp:project", "my-project", "--stack", "dev").code == 0
        yield found


def write(pulumi: DrivenPulumi, key: str, value: str) -> None:
    assert pulumi.run("config", "set", "--path", key, value, "--stack", "dev").code == 0


def test_googles_description_judges_inputs_and_its_fields_that_replace_do(pulumi: DrivenPulumi) -> None:
    write(pulumi, "changed.routingMode", "REGONAL")
    refused = pulumi.up("dev", NOW)
    assert "routingMode" in refused.failures[NET]
    write(pulumi, "changed.routingMode", "GLOBAL")
    assert pulumi.up("dev", NOW).succeeded
    # The name stays, so that the old one must go first.
    write(pulumi, "changed.description", "another")
    assert ways(pulumi) == ["delete-replaced", "create-replacement"]
    write(pulumi, "changed.name", "other")
    assert ways(pulumi) == ["create-replacement", "delete-replaced"]


def ways(pulumi: DrivenPulumi) -> list[str]:
    """How the network is replaced."""
    wanted = {"create-replacement", "delete-replaced"}
    return [
        one.operation for one in pulumi.up("dev", NOW).done.steps if one.phase == "done" and one.operation in wanted
    ]


def test_a_refresh_finds_what_was_changed_or_deleted_by_hand(pulumi: DrivenPulumi, cloud: RefusingCloud) -> None:
    assert pulumi.up("dev", NOW).succeeded
    made = pulumi.state("dev").get(NET)
    assert made is not None
    cloud.change(NETWORK, made.id, routingMode="GLOBAL")
    assert pulumi.refresh("dev").succeeded
    drifted = pulumi.state("dev").get(NET)
    assert drifted is not None
    assert drifted.inputs == {**made.inputs, "routingMode": "GLOBAL"}
    assert pulumi.up("dev", NOW).done.operations[NET] == "update"
    assert [one.inputs["routingMode"] for one in cloud.all() if one.type == NETWORK] == ["REGIONAL"]
    cloud.delete(NETWORK, made.id)
    write(pulumi, "changed.routingMode", "GLOBAL")
    assert "Error 404" in pulumi.up("dev", NOW).failures[NET]
    assert pulumi.refresh("dev").succeeded
    assert pulumi.state("dev").get(NET) is None
    assert pulumi.up("dev", NOW).done.operations[NET] == "create"


def test_a_protected_cluster_is_deleted_once_the_field_has_been_updated(
    pulumi: DrivenPulumi, cloud: RefusingCloud
) -> None:
    write(pulumi, "protected.deletionProtection", "true")
    assert pulumi.up("dev", NOW).succeeded
    (refused,) = (why for urn, why in pulumi.destroy("dev", NOW).failures.items() if urn.endswith("::cluster"))
    assert "deletion_protection" in refused
    assert any(one.type == CLUSTER for one in cloud.all())
    write(pulumi, "protected.deletionProtection", "false")
    assert pulumi.up("dev", NOW).succeeded
    assert pulumi.destroy("dev", NOW).succeeded
