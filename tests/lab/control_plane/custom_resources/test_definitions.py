"""Which definitions there are, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab.control_plane.custom_resources.definitions import (
    KEDA,
    MODULES,
    gke_definitions,
    keda_definitions,
    module_definitions,
)
from lab.control_plane.modules import module_folders, pinned
from lab.results.result import RehearsalError
from tests.lab.shapes import manifests
from tests.support.schemas import others

STRICTER: Final = {
    # Rules that the definition writes as expressions, or leaves to a webhook: ours has them as limits.
    "VolumeSnapshot.spec.volumeSnapshotClassName minLength",
    "VolumeSnapshot.spec.source minProperties",
    "VolumeSnapshot.spec.source maxProperties",
    "VolumeSnapshotContent.spec.source minProperties",
    "VolumeSnapshotContent.spec.source maxProperties",
    "ScaledObject.spec.triggers[].metricType enum",
}
BUILT_IN = {"apps", "batch", "networking.k8s.io", "policy", "storage.k8s.io", "rbac.authorization.k8s.io"}


def empty_modules(folder: Path) -> dict[str, Path]:
    for module, (inside, _) in MODULES.items():
        (folder / module / inside).mkdir(parents=True)
    return {module: folder / module for module in MODULES}


def test_every_custom_kind_that_the_program_can_write_has_a_definition() -> None:
    written = {
        (manifest["apiVersion"].rpartition("/")[0], manifest["kind"]) for manifest in manifests("every kind at once")
    }
    custom = {(group, kind) for group, kind in written if group not in BUILT_IN and group}
    copied = {(one["spec"]["group"], one["spec"]["names"]["kind"]) for one in gke_definitions()}
    of_modules = {
        ("gateway.networking.k8s.io", "Gateway"),
        ("gateway.networking.k8s.io", "HTTPRoute"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
        ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    }
    assert custom - copied == of_modules
    assert copied <= custom, "a definition that nothing needs"


def test_the_modules_that_are_read_are_the_modules_that_are_fetched() -> None:
    assert {*MODULES, KEDA} == pinned().keys()


def test_a_module_that_was_not_fetched_is_named() -> None:
    with pytest.raises(RehearsalError, match=r"sigs\.k8s\.io/gateway-api, which has .* is missing"):
        module_definitions({})


def test_a_module_of_another_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"0 files for gatewayclasses, expected one"):
        module_definitions(empty_modules(tmp_path))


@pytest.mark.slow
def test_the_fast_suites_schemas_are_parts_of_the_definitions() -> None:
    modules = module_folders(lambda _: None)
    real = {
        f"{definition['spec']['group']}/{version['name']} {definition['spec']['names']['kind']}": version
        for definition in (*module_definitions(modules), *keda_definitions(modules))
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
