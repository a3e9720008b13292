"""The package on the real engine: its schema, and a Python program that uses a component of it from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.guides.lines import ROOT
from tests.guides.table import UNCHANGED
from tests.guides.world import world

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "package"
FLEET = yaml.safe_load((ROOT / "template" / "Pulumi.yaml").read_text(encoding="utf-8"))["resources"]["fleet"]
ARGUMENTS = FLEET["properties"] | {
    "project": "my-project",
    "zones": ["us-central1-a"],
    "capacity": "on-demand",
    "replicas": 1,
}
PROGRAM = f"""
import json, pulumi

class Fleet(pulumi.ComponentResource):
    endpoint: pulumi.Output[str]

    def __init__(self):
        super().__init__("vllm-fleet:index:VllmFleet", "chat", {{**json.loads({json.dumps(ARGUMENTS)!r}), "endpoint": None}}, remote=True)

pulumi.export("endpoint", Fleet().endpoint)
"""
"""With the template's arguments. As in a generated SDK, outputs are named among the inputs."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    folder.mkdir()
    plugins = {"providers": [{"name": "vllm-fleet", "path": str(PACKAGE)}]}
    (folder / "Pulumi.yaml").write_text(json.dumps({"name": "chat", "runtime": "python", "plugins": plugins}))
    (folder / "__main__.py").write_text(PROGRAM)
    return folder


def test_the_engine_reads_the_schema(program: Path, tmp_path: Path) -> None:
    with world(tmp_path / "run", program) as here:
        said = here.type(f"pulumi package get-schema {PACKAGE}")
    assert said.code == 0, said.stderr
    found, own = json.loads(said.stdout), json.loads((PACKAGE / "schema.json").read_text(encoding="utf-8"))
    assert found["resources"].keys() == own["resources"].keys()
    for name, one in own["resources"].items():
        assert found["resources"][name]["inputProperties"].keys() == one["inputProperties"].keys()


def test_a_program_brings_a_fleet_up_and_destroys_it(program: Path, tmp_path: Path) -> None:
    with world(tmp_path / "run", program) as here:
        for line, says in (
            ("pulumi stack init dev", ""),
            ("pulumi up", "created"),
            ("pulumi stack output endpoint", "http://qwen35-server.vllm-dev-chat.svc.cluster.local:8000"),
            ("pulumi up", UNCHANGED),
            ("pulumi destroy", "deleted"),
        ):
            said = here.type(line)
            assert said.code == 0, said.stdout + said.stderr
            assert re.search(says, said.stdout)
        assert here.pulumi.state("dev").resources == ()
