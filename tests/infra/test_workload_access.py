from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.preview.record.recorder import Recording, record
from fleet.preview.record.values import reveal
from settings.derived.compile_cache import cache_key, server_account
from settings.derived.google_cloud_needs import secret_readers
from tests.support.recorded import BENCHMARK, ROOT, all_of, named, only, recorded_platform
from tests.support.settings import make_config, make_settings

BATCH = {"enabled": True}
KEPT = {"compileCache": {"enabled": True}}


def test_the_benchmark_adds_results_as_its_own_service_account_and_writes_over_its_progress_alone() -> None:
    recording = recorded_platform(benchmark=BENCHMARK, namespace="serving")
    grants = {one.inputs["role"].rpartition(".")[2]: one.inputs for one in all_of(recording, ":BucketIAMMember")}
    assert grants.keys() == {"objectCreator", "objectViewer", "objectUser"}
    assert {role for role, one in grants.items() if "condition" in one} == {"objectUser"}
    assert "/.progress/" in grants["objectUser"]["condition"]["expression"]
    assert len({(one["bucket"], one["member"]) for one in grants.values()}) == 1
    grant = grants["objectCreator"]
    assert grant["bucket"] == "fleet-tests-test-vllm-results"
    assert grant["member"].endswith("/subject/ns/serving/sa/benchmark")


def test_pods_of_a_batch_replace_checkpoints_and_nothing_else() -> None:
    recording = recorded_platform(batch=BATCH, namespace="serving")
    grants = {one.inputs["role"].rpartition(".")[2]: one.inputs for one in all_of(recording, ":BucketIAMMember")}
    assert grants.keys() == {"objectCreator", "objectViewer", "objectUser"}
    assert {role for role, one in grants.items() if "condition" in one} == {"objectUser"}
    assert {one["bucket"] for one in grants.values()} == {"fleet-tests-test-vllm-batches"}
    assert all(one["member"].endswith("/subject/ns/serving/sa/batch") for one in grants.values())
    templates = re.findall(r"extract\('(.*?)'\) != ''", grants["objectUser"]["condition"]["expression"])
    assert grants["objectUser"]["condition"]["expression"].count("||") == len(templates) - 1
    names = {
        "checkpoints/00000.jsonl": True,
        "parts/00000.jsonl": False,
        "later/00000": False,
        "shards/00000.jsonl": False,
        "batch.json": False,
        "runs.json": False,
    }
    for name, may in names.items():
        whole = f"projects/_/buckets/b/objects/batches/b0123456789ab/{name}"
        assert any(_extracts(template, whole) for template in templates) == may, name


def _extracts(template: str, name: str) -> bool:
    """Whether `extract` finds something between the template's two fixed texts. Source: IAM Conditions, extract()."""
    before, after = re.fullmatch(r"(.*)\{.*\}(.*)", template).groups()  # type: ignore[union-attr]
    begin = name.find(before)
    return begin >= 0 and name.find(after, begin + len(before)) > begin + len(before)


def test_a_grant_waits_for_the_cluster_whose_pool_its_principal_is_in() -> None:
    recording = recorded_platform(benchmark=BENCHMARK)
    for grant in all_of(recording, ":BucketIAMMember"):
        assert only(recording, "cluster:Cluster").urn in grant.property_dependencies["member"]


def test_compile_caches_are_created_and_read_by_the_pods_of_their_key_alone() -> None:
    recording = recorded_platform(server=KEPT)
    settings = make_settings(server=KEPT)
    key, bucket = cache_key(settings), named(recording, "caches-bucket").inputs
    assert bucket["forceDestroy"] is True
    assert "lifecycleRules" not in bucket
    grants = all_of(recording, ":BucketIAMMember")
    assert {one.inputs["role"] for one in grants} == {"roles/storage.objectViewer", "roles/storage.objectCreator"}
    for grant in grants:
        assert grant.inputs["bucket"] == bucket["name"]
        assert grant.inputs["member"].endswith(f"/subject/ns/vllm-test/sa/{server_account(settings)}")
        assert grant.inputs["condition"]["expression"] == (
            f"resource.name.startsWith('projects/_/buckets/{bucket['name']}/objects/{key}/')"
        )


def test_another_release_has_other_grants_beside_the_formers() -> None:
    """Made under other names, so that the former's end after its last pod, not before the next one's first."""
    names = [
        {one.name for one in all_of(recorded_platform(server=KEPT | more), ":BucketIAMMember")}
        for more in ({}, {"engine": {"maxNumSeqs": 256}})
    ]
    assert not names[0] & names[1]


def test_a_secret_of_servers_with_compile_caches_is_read_by_their_own_account() -> None:
    settings = make_settings(server=KEPT | {"apiKeySecret": "key"})
    assert secret_readers(settings) == ((server_account(settings), "key"),)


def test_a_dataset_in_cloud_storage_is_one_object_that_the_benchmark_may_read() -> None:
    dataset = {"url": "gs://my-traces/2026/day.jsonl", "sha256": "0" * 64}
    recording = recorded_platform(benchmark={**BENCHMARK, "workload": "trace", "dataset": dataset})
    (grant,) = (one.inputs for one in all_of(recording, ":BucketIAMMember") if one.inputs["bucket"] == "my-traces")
    results = all_of(recorded_platform(benchmark=BENCHMARK), ":BucketIAMMember")[0].inputs
    assert (grant["role"], grant["member"]) == ("roles/storage.objectViewer", results["member"])
    assert grant["condition"]["expression"] == (
        'resource.name == "projects/_/buckets/my-traces/objects/2026/day.jsonl"'
    )


@pytest.mark.parametrize(
    "benchmark",
    [
        {"enabled": True, "workload": "trace", "dataset": {"url": "https://h/x", "sha256": "0" * 64}},
        {"enabled": False, "workload": "trace", "dataset": {"url": "gs://my-traces/x", "sha256": "0" * 64}},
    ],
    ids=["https", "off"],
)
def test_nothing_is_granted_for_a_file_of_the_internet_or_a_benchmark_that_is_off(benchmark: dict[str, Any]) -> None:
    grants = all_of(recorded_platform(benchmark=benchmark), ":BucketIAMMember")
    assert all(one.inputs["bucket"] == "fleet-tests-test-vllm-results" for one in grants)
    assert len(grants) == 3 * int(benchmark["enabled"])


@pytest.mark.parametrize(
    ("sections", "readers"),
    [
        ({}, ()),
        ({"weights": {"source": "image", "image": "projects/models/global/images/a", "tokenSecret": "hf"}}, ()),
        (
            {"weights": {"source": "huggingface", "tokenSecret": "same"}, "server": {"apiKeySecret": "same"}},
            (("vllm-server", "same"),),
        ),
    ],
)
def test_no_secret_is_read_twice_or_by_nobody(sections: dict[str, Any], readers: tuple[object, ...]) -> None:
    assert secret_readers(make_settings(**sections)) == readers


def test_a_secret_is_granted_by_itself_and_never_project_wide() -> None:
    recording = recorded_platform(weights={"tokenSecret": "hf"})
    grant = only(recording, ":SecretIamMember").inputs
    assert grant["secretId"] == "hf"
    assert grant["role"] == "roles/secretmanager.secretAccessor"
    assert grant["member"].endswith("/subject/ns/vllm-test/sa/weights-writer")
    assert [one.inputs["role"] for one in all_of(recording, ":IAMMember")] == [
        "roles/container.defaultNodeServiceAccount"
    ]


def _mounted_secrets(recording: Recording) -> set[tuple[str, str]]:
    """Pairs of a pod's service account and a Secret Manager secret that it mounts, over the whole program."""
    kept: dict[str, list[str]] = {}
    for one in all_of(recording, ":SecretProviderClass"):
        text = one.inputs["spec"]["parameters"]["secrets"]
        found = re.findall(r"projects/[^/]+/secrets/([^/]+)/versions/", text)
        kept[one.inputs["metadata"]["name"]] = found
    pairs: set[tuple[str, str]] = set()
    for one in recording.resources:
        if not one.type.endswith((":Deployment", ":Job")):
            continue
        pod = reveal(one.inputs)["spec"]["template"]["spec"]
        for volume in pod["volumes"]:
            if "csi" in volume:
                for secret in kept[volume["csi"]["volumeAttributes"]["secretProviderClass"]]:
                    pairs.add((pod["serviceAccountName"], secret))
    return pairs


@pytest.mark.parametrize("source", ["hyperdisk", "huggingface"])
def test_exactly_the_pods_that_mount_a_secret_may_read_it(source: str) -> None:
    config = make_config(
        weights={"source": source, "tokenSecret": "hf"},
        server={"replicas": 1, "apiKeySecret": "key"},
        benchmark=BENCHMARK,
    )
    recording = record(ROOT, project="vllm-fleet", stack="test", config=config, mode="known")
    granted = {
        (one.inputs["member"].rpartition("/sa/")[2], one.inputs["secretId"])
        for one in all_of(recording, ":SecretIamMember")
    }
    assert granted == _mounted_secrets(recording)
    assert len(granted) == 4
