"""The simulated Google Cloud under the real engine: what it refuses, and that the stack goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engine.pulumi import Pulumi
from lab.providers.base import Served
from lab.providers.google.cloud import Refusal, SimulatedCloud
from lab.providers.google.provider import Google

pytestmark = pytest.mark.slow

PROJECT = "name: fixture\nruntime: python\n"
PROGRAM = """
import pulumi

google = pulumi.CustomResource("gcp:projects/service:Service", "api", {"service": "compute.googleapis.com"})
inputs = {"name": "net", "project": "my-project", "autoCreateSubnetworks": False}
pulumi.CustomResource("gcp:compute/network:Network", "net", inputs, pulumi.ResourceOptions(depends_on=[google]))
"""


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud()


@pytest.fixture
def pulumi(tmp_path: Path, cloud: SimulatedCloud) -> Iterator[Pulumi]:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(PROJECT)
    (root / "__main__.py").write_text(PROGRAM)
    with Served(Google(cloud)) as served:
        found = Pulumi(root, tmp_path / "run", providers=served.ports)
        assert found.run("stack", "init", "dev").code == 0
        assert found.run("config", "set", "gcp:project", "my-project", "--stack", "dev").code == 0
        yield found


def test_google_refuses_and_the_stack_goes_on_where_it_stopped(pulumi: Pulumi, cloud: SimulatedCloud) -> None:
    cloud.refusals.append(Refusal(kind="quota", types="gcp:compute/*", what="NETWORKS"))
    refused = pulumi.up("dev", "--skip-preview")
    (text,) = (text for urn, text in refused.failures.items() if urn.endswith("::net"))
    assert "Quota 'NETWORKS' exceeded" in text
    cloud.refusals.clear()
    second = pulumi.up("dev", "--skip-preview")
    assert second.succeeded
    assert [urn.rpartition("::")[2] for urn in second.done.urns("create") if urn.endswith("::net")] == ["net"]
    assert [urn.rpartition("::")[2] for urn in second.done.urns("same") if urn.endswith("::api")] == ["api"]
