"""The data behind "this replaces that" fits the installed packages and covers what the program uses."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from fleet.preview.compare.replacement import DATA, rules_of
from tests.fleet.preview.programs import fleet_like

ROOT = Path(__file__).parents[4]
WRITTEN = yaml.safe_load((DATA / "replacement.yaml").read_text(encoding="utf-8"))


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "documented", ROOT / "docs" / "generate" / "documented_replacements.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def documented() -> ModuleType:
    return script()


def test_the_documented_file_is_what_the_script_writes(documented: ModuleType) -> None:
    assert documented.OUTPUT.read_text(encoding="utf-8") == documented.text()


@pytest.mark.parametrize("type_", sorted(WRITTEN["google"]["types"]))
def test_every_property_is_one_of_the_installed_package(type_: str, documented: ModuleType) -> None:
    known = documented.properties(type_)
    entry = WRITTEN["google"]["types"][type_]
    assert [
        name for name in (*entry["properties"], *entry.get("unless_wider", ())) if name.split(".")[0] not in known
    ] == []


def types_in_inventories() -> set[str]:
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "inventories").glob("*.yaml"))
    return set(re.findall(r"\b((?:gcp|kubernetes):[\w./-]+:\w+)", text))


def test_every_type_that_the_stacks_use_is_covered() -> None:
    """So that a property which no rule lists is known to update in place."""
    documented = yaml.safe_load((DATA / "replacement_documented.yaml").read_text(encoding="utf-8"))
    known = {type_ for part in (documented, *WRITTEN.values()) if "types" in part for type_ in part["types"]}
    used = types_in_inventories()
    assert len(used) > 20
    assert used - known == set()


def test_every_google_type_of_the_code_is_covered() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "infra").glob("*.py"))
    made = set(re.findall(r"\b(?:compute|container|storage|projects|billing|serviceaccount|artifactregistry|secretmanager)"
                          r"\.([A-Z]\w+)\(", code))  # fmt: skip
    resources = {one for one in made if not one.endswith("Args")}
    known = {one.rpartition(":")[2] for one in WRITTEN["google"]["types"]}
    assert resources <= known


def test_every_kubernetes_object_is_replaced_with_its_name() -> None:
    for one in fleet_like("preview").resources:
        if one.type.startswith("kubernetes:") and "helm" not in one.type:
            assert "metadata.name" in {rule.pattern for rule in rules_of(one.type)}


def test_only_what_nobody_knows_is_guessed() -> None:
    assert {rule.certainty for rule in rules_of("acme:x:Y")} == {"guess"}
    assert "guess" not in {rule.certainty for rule in rules_of("kubernetes:acme.io/v1:Thing")}


def test_an_account_for_pulls_changes_the_image_repository_in_place() -> None:
    patterns = {rule.pattern for rule in rules_of("gcp:artifactregistry/repository:Repository")}
    assert "remoteRepositoryConfig.dockerRepository" in patterns
    assert patterns.isdisjoint({"remoteRepositoryConfig", "remoteRepositoryConfig.upstreamCredentials"})
