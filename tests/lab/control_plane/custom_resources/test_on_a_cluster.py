"""The definitions on a real API server: all served, and right for whatever the program can write."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from lab.control_plane.api import CUSTOM_RESOURCE_DEFINITION, ApiRefusedError, ClusterApi, Manifest
from lab.control_plane.custom_resources.definitions import gke_definitions
from lab.control_plane.custom_resources.install import FIELD_MANAGER, install
from lab.results.result import RehearsalError
from tests.lab.shapes import SHAPES, STACKS, distinct, manifests

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, custom_resources: list[Manifest]) -> ClusterApi:
    assert custom_resources
    return control_plane.api


def tried(api: ClusterApi, manifest: dict[str, Any], plural: str) -> str:
    """What the server says against creating the object; nothing is stored."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    folder = f"/apis/{version}/" + (f"namespaces/{namespace}/{plural}" if namespace else plural)
    try:
        api.raw("POST", f"{folder}?dryRun=All&fieldValidation=Strict", body=manifest)
    except ApiRefusedError as refusal:
        assert refusal.status in (400, 422), refusal.message
        return refusal.message
    return ""


def test_all_are_served_and_established(api: ClusterApi, custom_resources: list[Manifest]) -> None:
    assert len(custom_resources) == 19
    for resource in custom_resources:
        name = resource["metadata"]["name"]
        found = api.get(CUSTOM_RESOURCE_DEFINITION, name)
        assert found is not None
        conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
        assert conditions["Established"] == "True", name
        assert "NonStructuralSchema" not in conditions, name


def test_installing_again_changes_nothing(api: ClusterApi, custom_resources: list[Manifest]) -> None:
    before = versions(api, custom_resources)
    install(api, custom_resources)
    assert versions(api, custom_resources) == before


def versions(api: ClusterApi, manifests: list[Manifest]) -> list[str]:
    found = (api.get(CUSTOM_RESOURCE_DEFINITION, manifest["metadata"]["name"]) for manifest in manifests)
    return [one["metadata"]["resourceVersion"] for one in found if one is not None]


def test_a_definition_that_another_one_shadows_is_named(api: ClusterApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two definitions of one kind in one group: the second is never served."""
    first, twin = (of_test(name) for name in ("first", "twin"))
    try:
        install(api, [first])
        api.apply(twin, field_manager=FIELD_MANAGER)
        monkeypatch.setattr("lab.control_plane.custom_resources.install.TIMEOUT_SECONDS", 1.0)
        with pytest.raises(RehearsalError, match=r"twins\.shadow\.example"):
            install(api, [twin])
    finally:
        for one in (first, twin):
            api.delete(CUSTOM_RESOURCE_DEFINITION, one["metadata"]["name"])


def of_test(name: str) -> Manifest:
    """A definition in a group of its own: while one goes, other tests list what is there."""
    made = copy.deepcopy(gke_definitions()[0])
    made["spec"]["group"] = "shadow.example"
    made["spec"]["names"] = {"kind": "Shadow", "listKind": "ShadowList", "plural": f"{name}s", "singular": name}
    made["metadata"]["name"] = f"{name}s.shadow.example"
    return made


def test_whatever_the_program_can_write_is_accepted(api: ClusterApi) -> None:
    written = distinct([manifest for name in (*STACKS, *SHAPES) for manifest in manifests(name)])
    names = [one["spec"]["names"] for one in api.list_all(CUSTOM_RESOURCE_DEFINITION)]
    plurals = {name["kind"]: name["plural"] for name in names}
    custom = [one for one in written if "." in one["apiVersion"].partition("/")[0] and one["kind"] in plurals]
    assert {one["kind"] for one in custom} >= {
        *(one["spec"]["names"]["kind"] for one in gke_definitions()),
        "Gateway",
        "HTTPRoute",
        "VolumeSnapshot",
        "VolumeSnapshotClass",
    }
    for one in custom:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = "default"
        assert tried(api, one, plurals[one["kind"]]) == "", (one["kind"], one["metadata"]["name"])
