"""Which definitions there are, and that ours are strict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab.control_plane.custom_resources.definitions import (
    INFERENCE_EXTENSION,
    KEDA,
    REAL,
    keda_definitions,
    own_definitions,
    real_definitions,
)
from lab.control_plane.modules import module_folders, pinned
from lab.results.result import RehearsalError
from tests.lab.shapes import manifests
from tests.support.schemas import others

OURS = own_definitions()
STRICTER: Final = {
    # Rules that the real definition writes as expressions, or leaves to a webhook: ours has them as limits.
    "VolumeSnapshot.spec.volumeSnapshotClassName minLength",
    "VolumeSnapshot.spec.source minProperties",
    "VolumeSnapshot.spec.source maxProperties",
    "VolumeSnapshotContent.spec.source minProperties",
    "VolumeSnapshotContent.spec.source maxProperties",
    "ScaledObject.spec.triggers[].metricType enum",
}
BUILT_IN = {"apps", "batch", "networking.k8s.io", "policy", "storage.k8s.io", "rbac.authorization.k8s.io"}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def empty_modules(folder: Path) -> dict[str, Path]:
    for module, (inside, _) in REAL.items():
        (folder / module / inside).mkdir(parents=True)
    return {module: folder / module for module in REAL}


@pytest.mark.parametrize("definition", OURS, ids=lambda one: one["spec"]["names"]["kind"])
def test_ours_leave_no_place_open(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    for path, schema in nodes(version["schema"]["openAPIV3Schema"]):
        assert "x-kubernetes-preserve-unknown-fields" not in schema, path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        if schema.get("type") == "object" and path != ".metadata":
            assert schema.keys() & {"properties", "additionalProperties"}, path
        if schema.get("type") == "array":
            assert "items" in schema, path
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys(), path


@pytest.mark.parametrize("definition", OURS, ids=lambda one: one["spec"]["names"]["kind"])
def test_every_rule_of_ours_has_a_sentence(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    for path, schema in nodes(version["schema"]["openAPIV3Schema"]):
        for rule in schema.get("x-kubernetes-validations", ()):
            assert len(rule["message"]) > 15, path


def test_every_custom_kind_that_the_program_can_write_has_a_definition() -> None:
    written = {
        (manifest["apiVersion"].rpartition("/")[0], manifest["kind"]) for manifest in manifests("every kind at once")
    }
    custom = {(group, kind) for group, kind in written if group not in BUILT_IN and group}
    ours = {(one["spec"]["group"], one["spec"]["names"]["kind"]) for one in OURS}
    real = {
        ("gateway.networking.k8s.io", "Gateway"),
        ("gateway.networking.k8s.io", "HTTPRoute"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
        ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    }
    assert custom - ours == real
    assert ours <= custom, "a definition that nothing needs"


def test_the_modules_that_are_read_are_the_modules_that_are_fetched() -> None:
    assert {*REAL, KEDA} == pinned().keys()


def test_a_module_that_was_not_fetched_is_named() -> None:
    with pytest.raises(RehearsalError, match=r"sigs\.k8s\.io/gateway-api, which has .* is missing"):
        real_definitions({})


def test_a_module_of_another_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"0 files for gatewayclasses, expected one"):
        real_definitions(empty_modules(tmp_path))


def test_only_definitions_are_taken_and_only_those_that_gke_has(tmp_path: Path) -> None:
    folders = empty_modules(tmp_path)
    expected = []
    for module, (inside, names) in REAL.items():
        for name in names:
            stem = name if "_" in name else f"group.example_{name}"
            expected.append(stem)
            for written in (stem, f"{stem}extra"):
                text = f"kind: Policy\n---\nkind: CustomResourceDefinition\nmetadata: {{name: {written}}}\n"
                (folders[module] / inside / f"{written}.yaml").write_text(text)
    alpha = folders[INFERENCE_EXTENSION] / "config/crd/bases/inference.networking.x-k8s.io_inferencepools.yaml"
    alpha.write_text("kind: CustomResourceDefinition\nmetadata: {name: alpha}\n")
    assert [definition["metadata"]["name"] for definition in real_definitions(folders)] == expected


@pytest.mark.slow
def test_the_fast_suites_schemas_are_parts_of_the_real_definitions() -> None:
    modules = module_folders(lambda _: None)
    real = {
        f"{definition['spec']['group']}/{version['name']} {definition['spec']['names']['kind']}": version
        for definition in (*real_definitions(modules), *keda_definitions(modules))
        for version in definition["spec"]["versions"]
    }
    compared = {name: schema for name, schema in others().items() if name in real}
    assert compared.keys() == others().keys()
    differences = {
        difference
        for name, schema in compared.items()
        for difference in differing(schema, real[name]["schema"]["openAPIV3Schema"], name.split()[-1])
    }
    assert differences == STRICTER


def differing(ours: dict[str, Any], real: dict[str, Any], path: str) -> Iterator[str]:
    """Places of ours that the real one lacks, and what they say otherwise."""
    if ours.get("properties") and set(ours.get("required", ())) != set(real.get("required", ())):
        yield f"{path} required"
    for key, value in ours.items():
        if key == "properties":
            for name, inner in value.items():
                if name in real.get("properties", {}):
                    yield from differing(inner, real["properties"][name], f"{path}.{name}")
                else:
                    yield f"{path}.{name} unknown"
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            yield from differing(value, real.get(key) or {}, f"{path}{'[]' if key == 'items' else '{}'}")
        elif key == "enum":
            if set(value) != set(real.get("enum", ())):
                yield f"{path} enum"
        elif key != "required" and value != real.get(key):
            yield f"{path} {key}"
