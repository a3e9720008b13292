"""The component package on Pulumi's engine: its schema, and a Python program that uses it as a remote component."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.rehearse.clock import Clock
from fleet.rehearse.engine.pulumi import Pulumi
from fleet.rehearse.providers.base import Served
from fleet.rehearse.providers.cloud import SimulatedCloud
from fleet.rehearse.providers.google import Google
from fleet.rehearse.providers.observed import Observed
from fleet.rehearse.timeline import Timeline
from tests.inventory import ROOT
from tests.support.plain_kubernetes import PlainKubernetes

pytestmark = pytest.mark.slow

PROJECT = """
name: consumer
runtime: python
plugins:
  providers:
    - {name: vllm-fleet, path: %s}
"""
PROGRAM = """
import pulumi


class VllmFleet(pulumi.ComponentResource):
    endpoint: pulumi.Output[str]

    def __init__(self, name, **inputs):
        super().__init__("vllm-fleet:index:VllmFleet", name, {**inputs, "endpoint": None}, None, True)


fleet = VllmFleet("chat", project="my-project", zones=["us-central1-a"], machine="g2-standard-12", capacity="spot",
                  model="Qwen/Qwen3.5-4B", profile="serve-chat", replicas=pulumi.Config().require_int("replicas"))
pulumi.export("endpoint", fleet.endpoint)
"""


@contextmanager
def engine(root: Path, folder: Path) -> Iterator[Pulumi]:
    clock = Clock(60.0)
    observed = Observed(clock, Timeline(clock))
    with Served(Google(observed, SimulatedCloud()), PlainKubernetes(observed)) as served:
        yield Pulumi(root, folder, providers=served.ports)


def test_the_engine_reads_the_schema_of_the_repository(tmp_path: Path) -> None:
    with engine(ROOT, tmp_path / "run") as pulumi:
        said = pulumi.run("package", "get-schema", "./package")
    assert said.code == 0, said.stderr
    found, kept = json.loads(said.stdout), json.loads((ROOT / "package" / "schema.json").read_text(encoding="utf-8"))
    assert found["resources"] == read_by_engine(kept["resources"])
    assert (found["name"], found["version"], found["language"]) == (kept["name"], kept["version"], kept["language"])


def test_a_program_uses_the_package_as_a_remote_component(tmp_path: Path) -> None:
    root = tmp_path / "consumer"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(PROJECT % (ROOT / "package"))
    (root / "__main__.py").write_text(PROGRAM)
    with engine(root, tmp_path / "run") as pulumi:
        pulumi.run("stack", "init", "dev")
        pulumi.run("config", "set", "replicas", "1", "--stack", "dev")
        up = pulumi.up("dev", "--skip-preview")
        assert up.succeeded, up.failures
        state = pulumi.state("dev")
        assert state.outputs["endpoint"] == "http://qwen35-server.vllm-dev-chat.svc.cluster.local:8000"
        (component,) = state.of_type("vllm-fleet:index:VllmFleet")
        assert any(one.parent == component.urn for one in state.resources)
        (server,) = state.of_type("kubernetes:apps/v1:Deployment")
        assert set(pulumi.preview("dev").planned.operations.values()) == {"same"}

        pulumi.run("config", "set", "replicas", "2", "--stack", "dev")
        changed = pulumi.preview("dev").planned.operations
        assert changed[server.urn] == "update"


def read_by_engine(value: Any, key: str = "") -> Any:
    """A part of a schema as the engine writes it: an element's type has no description."""
    if isinstance(value, dict):
        drop = ("description",) if key in ("items", "additionalProperties") else ()
        return {name: read_by_engine(item, name) for name, item in value.items() if name not in drop}
    return [read_by_engine(item) for item in value] if isinstance(value, list) else value
