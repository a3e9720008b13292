"""The copy of a project, and the stack files in it."""

from __future__ import annotations

import importlib.util
import json
import py_compile
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts.names import stack_names
from fleet.preview.offline import OfflineStack, open_stack
from lab.engine.project import Project
from lab.stage.variants import varied
from settings.stack_file import read

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(ROOT, tmp_path_factory.mktemp("rehearsed") / "project")


def config(project: Project, stack: str) -> Any:
    return yaml.safe_load(project.stack_file(stack).read_text(encoding="utf-8"))["config"]


def test_the_copy_has_the_program_and_the_pack_and_leaves_the_rest(project: Project) -> None:
    there = {path.name for path in project.folder.iterdir()}
    assert there >= {
        "__main__.py",
        "Pulumi.yaml",
        "Pulumi.README.md",
        "infra",
        "workloads",
        "settings",
        "facts",
        "policy",
    }
    assert not there & {"tests", "docs", "fleet", ".git", ".venv"}
    assert (project.folder / "settings" / "profiles.yaml").is_file()


def test_the_copys_project_file_differs_in_one_line(project: Project) -> None:
    before, after = (yaml.safe_load((one / "Pulumi.yaml").read_text()) for one in (ROOT, project.folder))
    before["runtime"]["options"]["virtualenv"] = sys.prefix
    assert after == before


def test_compiled_files_stay_valid(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "part").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    source = root / "part" / "module.py"
    source.write_text("x = 1\n")
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    copy = Project(root, tmp_path / "copy").folder / "part"
    cached = Path(importlib.util.cache_from_source(str(copy / "module.py")))
    stamp = int.from_bytes(cached.read_bytes()[8:12], "little")
    assert stamp == int((copy / "module.py").stat().st_mtime)


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_a_staged_stack_has_the_values_of_its_file(project: Project, stack: str) -> None:
    opened = open_stack(ROOT, stack)
    project.stage(opened)
    assert read(project.folder, stack).config == opened.config


def test_changed_sections_arrive_as_structures_and_texts_as_texts(project: Project) -> None:
    stack = varied(open_stack(ROOT, "smoke"), {"server": {"replicas": 0}})
    project.stage(replace(stack, config={**stack.config, "vllm-fleet:namespace": "1e3"}))
    found = config(project, "smoke")
    assert found["vllm-fleet:server"]["replicas"] == 0
    assert found["vllm-fleet:namespace"] == "1e3"


def test_secrets_are_left_out_and_their_salt_stays(project: Project) -> None:
    opened = open_stack(ROOT, "dev")
    sealed: OfflineStack = replace(
        opened,
        config={**opened.config, "vllm-fleet:hfToken": "x"},
        file=replace(opened.file, secret_keys=frozenset({"vllm-fleet:hfToken"})),
    )
    project.stack_file("dev").write_text(json.dumps({"config": {}, "encryptionsalt": "v1:abc"}))
    project.stage(sealed)
    document = yaml.safe_load(project.stack_file("dev").read_text())
    assert document["encryptionsalt"] == "v1:abc"
    assert "vllm-fleet:hfToken" not in document["config"]
