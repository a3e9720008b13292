from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.preview.record.recorder import UNKNOWN, Recording
from fleet.preview.record.values import paths_of_unknowns
from tests.support.recorded import BENCHMARK, BUDGET, GATEWAY, all_of, goes_before, named, only, recorded_platform

EVERYTHING: dict[str, Any] = {
    "gateway": GATEWAY,
    "benchmark": BENCHMARK,
    "budget": BUDGET,
    "server": {"replicas": 8, "apiKeySecret": "api-key"},
    "weights": {"tokenSecret": "hf-token"},
    "registry": {"dockerHubUser": "fleetpulls", "dockerHubTokenSecret": "docker-hub"},
    "labels": {"team": "inference"},
}


@pytest.fixture(scope="module")
def everything() -> Recording:
    return recorded_platform(serving=True, **EVERYTHING)


def test_both_modes_record_the_same_urns(everything: Recording) -> None:
    assert [one.urn for one in recorded_platform("preview", **EVERYTHING).resources] == [
        one.urn for one in everything.resources
    ]


def test_no_input_of_a_known_stack_is_left_unknown(everything: Recording) -> None:
    assert [
        (one.name, paths_of_unknowns(one.inputs)) for one in everything.resources if paths_of_unknowns(one.inputs)
    ] == []


def test_everything_that_calls_google_waits_for_the_apis(everything: Recording) -> None:
    apis = all_of(everything, "projects/service:Service")
    for one in everything.resources:
        if one.custom and one.type.startswith("gcp:") and one not in apis:
            for api in apis:
                assert goes_before(everything, one.name, api.name), (one.name, api.name)


def test_destroy_reaches_the_buckets_last_so_that_what_is_left_in_them_blocks_nothing_that_costs(
    everything: Recording,
) -> None:
    batches = recorded_platform(batch={"enabled": True, "retentionDays": 7})
    for recording, bucket in ((everything, "results-bucket"), (batches, "batches-bucket")):
        for costly in ("cluster-autopilot", "network-nat", "images-docker-hub"):
            assert goes_before(recording, costly, bucket)
        assert not goes_before(recording, bucket, "cluster-autopilot")
    made = named(batches, "batches-bucket").inputs
    expected = {"publicAccessPrevention": "enforced", "location": "EUROPE-WEST4", "forceDestroy": False}
    assert made.items() >= expected.items()
    assert made["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 7}}]
    assert made["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    assert batches.outputs["batchBucket"] == made["name"]
    assert "batchBucket" not in recorded_platform().outputs


def test_every_object_on_the_cluster_goes_before_the_proxy_only_subnet(everything: Recording) -> None:
    # Objects on the cluster depend on their provider.
    assert goes_before(everything, "cluster-kubernetes", "proxies-subnet")
    assert goes_before(everything, "cluster-kubernetes", "cluster-autopilot")


def test_nodes_never_start_without_their_roles_or_their_way_out(everything: Recording) -> None:
    for needed in ("nodes-telemetry", "nodes-pull", "network-nat"):
        assert goes_before(everything, "cluster-autopilot", needed)


def test_the_kubeconfig_appears_nowhere_in_plain_text(everything: Recording) -> None:
    server = json.loads(everything.outputs["kubeconfig"].value)["clusters"][0]["cluster"]["server"]
    told = [one.inputs for one in everything.resources] + [
        one.outputs for one in everything.resources if not one.custom
    ]
    assert server.removeprefix("https://") not in repr([told, everything.outputs])
    assert "gke-gcloud-auth-plugin" not in repr([told, everything.outputs])


def test_before_the_first_up_the_project_number_is_unknown_instead_of_asked_of_an_api_that_is_off() -> None:
    recording = recorded_platform("preview", **EVERYTHING)
    assert recording.outputs["projectNumber"] is UNKNOWN
    assert only(recording, "billing/budget:Budget").inputs["budgetFilter"]["projects"] == [UNKNOWN]


def test_the_node_account_has_two_roles_on_two_things(everything: Recording) -> None:
    member = "serviceAccount:test-vllm-nodes@fleet-tests.iam.gserviceaccount.com"
    telemetry = only(everything, "projects/iAMMember:IAMMember").inputs
    assert (telemetry["role"], telemetry["member"]) == ("roles/container.defaultNodeServiceAccount", member)
    pull = only(everything, ":RepositoryIamMember").inputs
    assert (pull["role"], pull["member"]) == ("roles/artifactregistry.reader", member)
    assert pull["repository"] == "test-docker-hub"


def test_the_bucket_is_in_the_region_and_its_objects_end(everything: Recording) -> None:
    bucket = only(recorded_platform(results={"retentionDays": 30}), "storage/bucket:Bucket").inputs
    assert bucket["location"] == "EUROPE-WEST4"
    assert bucket["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 30}}]
    assert only(everything, "storage/bucket:Bucket").inputs["name"] == "fleet-tests-test-vllm-results"


def test_the_image_repository_pulls_docker_hub_through_and_cleans_up_for_real(everything: Recording) -> None:
    repository = only(everything, "artifactregistry/repository:Repository").inputs
    assert repository["mode"] == "REMOTE_REPOSITORY"
    assert repository["remoteRepositoryConfig"]["dockerRepository"] == {"publicRepository": "DOCKER_HUB"}
    assert repository["cleanupPolicyDryRun"] is False
    assert [policy["action"] for policy in repository["cleanupPolicies"]] == ["DELETE", "KEEP"]


def test_the_budget_warns_on_the_whole_project_and_works_with_a_persons_credentials(everything: Recording) -> None:
    budget = only(everything, "billing/budget:Budget")
    number = everything.outputs["projectNumber"]
    assert budget.inputs["budgetFilter"] == {"projects": [f"projects/{number}"], "calendarPeriod": "MONTH"}
    assert budget.inputs["amount"] == {"specifiedAmount": {"currencyCode": "USD", "units": "50000"}}
    assert [rule["thresholdPercent"] for rule in budget.inputs["thresholdRules"]] == [0.5, 0.9, 1]
    provider = named(everything, "budget-gcp")
    assert budget.provider.startswith(provider.urn)
    assert provider.inputs["billingProject"] == "fleet-tests"
    assert provider.inputs["userProjectOverride"] == "true"


def test_everything_that_takes_labels_gets_them_of_the_provider(everything: Recording) -> None:
    provider = named(everything, "google")
    assert json.loads(provider.inputs["defaultLabels"]) == {"app": "vllm-fleet", "stack": "test", "team": "inference"}
    assert (provider.inputs["project"], provider.inputs["region"]) == ("fleet-tests", "europe-west4")
    own = named(everything, "budget-gcp")
    for one in everything.resources:
        if one.custom and one.type.startswith("gcp:"):
            assert one.provider.startswith((provider.urn, own.urn)), one.urn
            assert "stack" not in one.inputs.get("labels", {}), one.urn


def test_two_stacks_of_one_project_never_ask_for_the_same_name() -> None:
    def names(stack: str) -> set[str]:
        keys = ("name", "accountId", "repositoryId", "member")
        found = recorded_platform(stack=stack, gateway=GATEWAY, benchmark=BENCHMARK, weights={"tokenSecret": "hf"})
        return {str(one.inputs[key]) for one in found.resources for key in keys if key in one.inputs}

    assert names("dev") & names("spot") == set()
