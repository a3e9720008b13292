"""The descriptions are read from the installed package, lazily, and their absence is told in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.google_cloud import documents
from rehearsal.google_cloud.documents import described_services, document
from rehearsal.results import RehearsalError


@pytest.fixture
def other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(documents, "_folder", lambda: tmp_path)
    yield tmp_path
    # What was read from there is nobody else's.
    document.cache_clear()


def test_a_field_is_found_through_objects_lists_and_maps() -> None:
    compute = document("compute.beta").schema("Subnetwork")
    found = compute.at("secondaryIpRanges.rangeName")
    assert found is not None
    assert found.label == "SubnetworkSecondaryRange.rangeName"
    registry = document("artifactregistry.v1").schema("Repository")
    by_key = registry.at("cleanupPolicies.*.condition.tagState")
    assert by_key is not None
    assert "ANY" in by_key.schema["enum"]
    assert compute.at("secondaryIpRanges.nonsense") is None


def test_a_method_knows_its_body_and_its_url() -> None:
    method = document("container.v1beta1").method("container.projects.locations.clusters.create")
    assert method.body is not None
    assert method.body.label == "CreateClusterRequest"
    assert method.required_parameters == ("parent",)


def test_what_only_the_api_fills_is_known_however_it_is_written() -> None:
    network = document("compute.beta").schema("Network").fields()
    assert network["creationTimestamp"].output_only  # readOnly
    assert network["selfLink"].output_only  # "[Output Only]" in words alone
    assert not network["name"].output_only


def test_what_a_method_needs_is_known_however_it_is_written() -> None:
    network = document("compute.beta").schema("Network").fields()
    assert network["name"].required_by("compute.networks.insert")  # annotations
    assert not network["name"].required_by("compute.networks.patch")
    budget = document("billingbudgets.v1").schema("GoogleCloudBillingBudgetsV1Budget").fields()
    assert budget["amount"].required_by("billingbudgets.billingAccounts.budgets.create")  # "Required." in words


def test_a_source_has_the_documents_name_and_its_date() -> None:
    label = document("storage.v1").label
    assert label == f"storage.v1 revision {document('storage.v1').revision}"
    assert label[-8:].isdigit()


def test_the_services_with_a_description_are_read_off_the_files() -> None:
    assert {"compute.googleapis.com", "container.googleapis.com"} <= described_services()
    assert len(described_services()) > 200


def test_a_description_is_read_once() -> None:
    assert document("iam.v1") is document("iam.v1")


@pytest.mark.usefixtures("other_folder")
def test_a_description_that_the_package_lacks_is_told_with_what_to_install() -> None:
    with pytest.raises(RehearsalError, match=r"no description compute\.v99.*pip install -r requirements-rehearsal"):
        document("compute.v99")


def test_a_broken_description_is_told_with_its_path(other_folder: Path) -> None:
    (other_folder / "broken.v1.json").write_text("{", encoding="utf-8")
    with pytest.raises(RehearsalError, match=r"broken\.v1\.json is not valid JSON.*--force-reinstall"):
        document("broken.v1")


def test_without_the_package_the_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    documents._folder.cache_clear()
    monkeypatch.setattr(documents.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RehearsalError, match="API descriptions are not installed"):
        documents._folder()
