"""The definitions on a real API server: all served, strict, and no milder than the real ones."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.control_plane.api import CUSTOM_RESOURCE_DEFINITION, ApiRefusedError, ClusterApi, Kind, Manifest
from lab.control_plane.custom_resources.definitions import own_definitions
from lab.control_plane.custom_resources.install import FIELD_MANAGER, install
from lab.results.result import RehearsalError
from tests.lab.control_plane.custom_resources.samples import GOOD, WRONG, Wrong, changed, good
from tests.lab.shapes import SHAPES, STACKS, distinct, manifests

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
PLURALS = {
    definition["spec"]["names"]["kind"]: definition["spec"]["names"]["plural"] for definition in own_definitions()
}
REAL = Path(__file__).with_name("real")
"""Google's and Kubernetes' own files, unmodified (THIRD-PARTY.md has repository, commit and date of each)."""
BESIDE = "beside."
"""Before the group of the real definitions, so that both can be on one API server."""


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, custom_resources: list[Manifest]) -> ClusterApi:
    assert custom_resources
    return control_plane.api


@pytest.fixture(scope="module")
def real(api: ClusterApi) -> Iterator[ClusterApi]:
    """The real definitions of the kinds that ours stand for, under a group of another name."""
    made = [_beside(definition) for definition in own_definitions()]
    install(api, made)
    yield api
    for one in made:
        api.delete(CUSTOM_RESOURCE_DEFINITION, one["metadata"]["name"])


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
    twin = copy.deepcopy(own_definitions()[0])
    names = twin["spec"]["names"]
    names.update(plural="twins", singular="twin", shortNames=["twi"])
    twin["metadata"]["name"] = f"twins.{twin['spec']['group']}"
    api.apply(twin, field_manager=FIELD_MANAGER)
    try:
        monkeypatch.setattr("lab.control_plane.custom_resources.install.TIMEOUT_SECONDS", 1.0)
        with pytest.raises(RehearsalError, match=r"twins\.cloud\.google\.com"):
            install(api, [twin])
    finally:
        api.delete(CUSTOM_RESOURCE_DEFINITION, twin["metadata"]["name"])


def test_whatever_the_program_can_write_is_accepted(api: ClusterApi) -> None:
    written = distinct([manifest for name in (*STACKS, *SHAPES) for manifest in manifests(name)])
    custom = [
        one for one in written if "." in one["apiVersion"].partition("/")[0] and one["kind"] in _custom_kinds(api)
    ]
    assert {one["kind"] for one in custom} >= {
        *PLURALS,
        "Gateway",
        "HTTPRoute",
        "VolumeSnapshot",
        "VolumeSnapshotClass",
    }
    for one in custom:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = "default"
        assert tried(api, one, _custom_kinds(api)[one["kind"]]) == "", (one["kind"], one["metadata"]["name"])


def test_ours_apply_server_side_and_once_only(api: ClusterApi) -> None:
    """A second apply of what the program writes must not be a change: lists merge and defaults fill in as in the real ones."""
    for kind in GOOD:
        manifest = good(kind)
        first = api.apply(manifest, field_manager="pulumi-kubernetes")
        second = api.apply(manifest, field_manager="pulumi-kubernetes")
        api.delete(Kind(manifest["apiVersion"], kind), "sample", manifest["metadata"].get("namespace"))
        assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"], kind


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_object_is_accepted(api: ClusterApi, kind: str) -> None:
    assert tried(api, good(kind), PLURALS[kind]) == ""


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: one.name)
def test_a_wrong_value_is_refused_with_the_reason(api: ClusterApi, wrong: Wrong) -> None:
    assert wrong.says in tried(api, changed(wrong), PLURALS[wrong.kind])


@pytest.mark.parametrize("kind", GOOD)
def test_the_real_one_accepts_the_good_object_too(real: ClusterApi, kind: str) -> None:
    assert tried(real, _for_real(good(kind)), PLURALS[kind]) == ""


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: one.name)
def test_the_real_one_refuses_it_too_or_the_sample_says_that_ours_is_stricter(real: ClusterApi, wrong: Wrong) -> None:
    assert bool(tried(real, _for_real(changed(wrong)), PLURALS[wrong.kind])) is wrong.real_refuses


def test_the_real_ones_accept_whatever_the_program_can_write(real: ClusterApi) -> None:
    written = distinct(
        [manifest for name in (*STACKS, *SHAPES) for manifest in manifests(name) if manifest["kind"] in PLURALS]
    )
    for one in written:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = "default"
        assert tried(real, _for_real(one), PLURALS[one["kind"]]) == "", (one["kind"], one["metadata"]["name"])


def _custom_kinds(api: ClusterApi) -> dict[str, str]:
    found = api.list_all(CUSTOM_RESOURCE_DEFINITION)
    names = [one["spec"]["names"] for one in found if not one["spec"]["group"].startswith(BESIDE)]
    return {name["kind"]: name["plural"] for name in names}


def _beside(ours: dict[str, Any]) -> dict[str, Any]:
    group, plural = ours["spec"]["group"], ours["spec"]["names"]["plural"]
    text = gzip.decompress((REAL / f"{group}_{plural}.yaml.gz").read_bytes())
    found: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found["spec"]["group"] = BESIDE + group
    found["metadata"]["name"] = f"{plural}.{BESIDE}{group}"
    return found


def _for_real(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "apiVersion": BESIDE + manifest["apiVersion"]}
