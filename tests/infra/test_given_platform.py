"""A cluster that somebody else made: joined by its kubeconfig, and left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from fleet.preview.record.recorder import Secret
from infra.cluster_outputs import ClusterOutputs
from infra.existing_cluster import cluster_of_kubeconfig
from settings.load import check
from settings.sections.platform import Platform
from tests.support.recorded import BENCHMARK, all_of, named, recorded_platform
from tests.support.settings import make_settings

FILE = "tests/infra/given_cluster.yaml"
GIVEN: dict[str, Any] = {"platform": {"kubeconfig": FILE}}


def of_file(path: Path, project: str = "fleet-tests", region: str = "europe-west4") -> ClusterOutputs:
    return cluster_of_kubeconfig(Platform.model_construct(kubeconfig=str(path)), project, region, "1")


def test_nothing_but_an_api_and_a_provider_is_made() -> None:
    recording = recorded_platform(**GIVEN)
    assert {one.type for one in recording.resources if one.custom} == {
        "gcp:projects/service:Service",
        "pulumi:providers:gcp",
        "pulumi:providers:kubernetes",
    }
    provider = named(recording, "cluster-kubernetes").inputs
    assert isinstance(provider["kubeconfig"], Secret)
    assert provider["clusterIdentifier"].startswith("https://gke-")
    assert recording.outputs["clusterName"] == "shared"
    assert isinstance(recording.outputs["kubeconfig"], Secret)


def test_the_benchmark_writes_to_the_bucket_that_is_named() -> None:
    platform = {"kubeconfig": FILE, "resultsBucket": "our-results"}
    recording = recorded_platform(platform=platform, benchmark=BENCHMARK)
    assert {one.inputs["bucket"] for one in all_of(recording, ":BucketIAMMember")} == {"our-results"}


def test_batches_have_a_bucket_of_their_own_beside_the_given_cluster() -> None:
    recording = recorded_platform(**GIVEN, batch={"enabled": True})
    bucket = named(recording, "batches-bucket").inputs["name"]
    assert bucket == recording.outputs["batchBucket"] == "fleet-tests-test-vllm-batches"
    assert {one.inputs["bucket"] for one in all_of(recording, ":BucketIAMMember")} == {bucket}


@pytest.mark.parametrize(
    ("sections", "id_"),
    [
        ({**GIVEN, "benchmark": BENCHMARK}, "benchmark-without-bucket"),
        ({**GIVEN, "network": {"nodeCidr": "10.0.0.0/20"}}, "without-effect"),
        ({"platform": {"kubeconfig": FILE, "stack": "base"}}, "platform-twice"),
        ({"platform": {"resultsBucket": "our-results"}}, "without-effect"),
    ],
)
def test_what_the_other_clusters_owner_decides_is_refused_here(sections: dict[str, Any], id_: str) -> None:
    assert id_ in {one.id for one in check(make_settings(**sections)) if one.severity == "error"}
    assert id_ not in {one.id for one in check(make_settings(**GIVEN))}


@pytest.mark.parametrize("place", [{"project": "another-project"}, {"region": "us-central1"}])
def test_a_cluster_of_another_place_is_refused(place: dict[str, str]) -> None:
    with pytest.raises(pulumi.RunError, match="must start with gke_"):
        of_file(Path(FILE), **place)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("command: gke-gcloud-auth-plugin", "command: /tmp/run-me", "a credential in a file"),
        ("    exec:", "    token: secret-of-a-file\n    exec:", "a credential in a file"),
        ("users:", "somebody:", "one cluster and one user"),
    ],
)
def test_a_kubeconfig_with_credentials_or_without_a_plugin_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(Path(FILE).read_text().replace(old, new))
    with pytest.raises(pulumi.RunError, match=why) as refusal:
        of_file(file)
    assert "secret-of-a-file" not in str(refusal.value)


def test_a_file_that_is_not_there_is_refused_with_the_command_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(pulumi.RunError, match=r"KUBECONFIG=cluster\.yaml gcloud container clusters get-credentials"):
        of_file(tmp_path / "cluster.yaml")
