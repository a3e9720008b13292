"""The data behind "this replaces that" fits the installed packages and covers what the program uses."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
from pathlib import Path

import pulumi_gcp
import pytest
import yaml
from pulumi._types import input_type_py_to_pulumi_names

from fleet.preview.compare.replacement import DATA, rules_of
from tests.fleet.preview.programs import whole_fleet

ROOT = Path(__file__).parents[4]
WRITTEN = yaml.safe_load(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("type_", sorted(WRITTEN["google"]["types"]))
def test_every_property_is_one_of_the_installed_package(type_: str) -> None:
    package, _, name = type_.partition(":")[2].replace("/", ":").partition(":")
    class_ = (
        pulumi_gcp.Provider
        if package == "providers"
        else getattr(importlib.import_module(f"pulumi_gcp.{package}"), name.rpartition(":")[2])
    )
    arguments = getattr(inspect.getmodule(class_), f"{class_.__name__}Args")
    known, entry = set(input_type_py_to_pulumi_names(arguments).values()), WRITTEN["google"]["types"][type_]
    written = (*entry["properties"], *entry.get("unless_wider", ()), *entry.get("documented", ()))
    assert {name.split(".")[0] for name in written} <= known


def test_what_is_documented_is_documented_by_the_installed_package() -> None:
    assert WRITTEN["google"]["documentation"] == f"pulumi-gcp {importlib.metadata.version('pulumi-gcp')}"


def types_in_inventories() -> set[str]:
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "inventories").glob("*.yaml"))
    return set(re.findall(r"\b((?:gcp|kubernetes):[\w./-]+:\w+)", text))


def test_every_type_that_the_stacks_use_is_covered() -> None:
    """So that a property which no rule lists is known to update in place."""
    known = {type_ for part in WRITTEN.values() if "types" in part for type_ in part["types"]}
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
    for one in whole_fleet("preview").resources:
        if one.type.startswith("kubernetes:") and "helm" not in one.type:
            assert "metadata.name" in {rule.pattern for rule in rules_of(one.type)}


def test_only_what_nobody_knows_is_guessed() -> None:
    assert {rule.certainty for rule in rules_of("acme:x:Y")} == {"guess"}
    assert "guess" not in {rule.certainty for rule in rules_of("kubernetes:acme.io/v1:Thing")}


def test_an_account_for_pulls_changes_the_image_repository_in_place() -> None:
    patterns = {rule.pattern for rule in rules_of("gcp:artifactregistry/repository:Repository")}
    assert "remoteRepositoryConfig.dockerRepository" in patterns
    assert patterns.isdisjoint({"remoteRepositoryConfig", "remoteRepositoryConfig.upstreamCredentials"})
