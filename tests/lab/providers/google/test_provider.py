"""The simulated Google Cloud through its provider: what it accepts, refuses, keeps apart and finds again."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from fleet.preview.record.values import UNKNOWN
from fleet.preview.record.wire import decode_struct, encode_struct
from lab.providers.google.cloud import CLUSTER, SERVICE, Refusal, SimulatedCloud
from lab.providers.google.provider import Google
from tests.lab.providers.calls import Context, Diff, RefusedCallError, Resource

NETWORK = "gcp:compute/network:Network"
BUCKET = "gcp:storage/bucket:Bucket"
REGION = "europe-west4"


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud()


@pytest.fixture
def google(cloud: SimulatedCloud) -> Google:
    made = Google(cloud)
    made.configured({"project": "my-project", "region": REGION})
    return made


def enabled(google: Google, *services: str) -> None:
    for service in services:
        made = Resource(google, SERVICE, service)
        made.create({"service": f"{service}.googleapis.com", "project": "my-project", "disableOnDestroy": False})


def network(google: Google, stack: str = "dev", **inputs: Any) -> Resource:
    one = Resource(google, NETWORK, "net", stack)
    one.create({"name": "net", "project": "my-project", "autoCreateSubnetworks": False, **inputs})
    return one


def test_outputs_that_the_program_reads_are_there_and_a_preview_leaves_them_unknown(google: Google) -> None:
    enabled(google, "iam")
    account = Resource(google, "gcp:serviceaccount/account:Account", "node-account")
    inputs = {"accountId": "node-account", "project": "my-project"}
    assert account.create(inputs, preview=True) == inputs
    outputs = account.create(inputs)
    assert outputs["email"] == "node-account@my-project.iam.gserviceaccount.com"
    assert account.id == f"projects/my-project/serviceAccounts/{outputs['email']}"


def test_a_resource_of_an_api_that_is_not_enabled_is_refused(google: Google) -> None:
    with pytest.raises(
        RefusedCallError, match=r"Error 403: compute.googleapis.com has not been used .*accessNotConfigured"
    ):
        network(google)
    enabled(google, "compute")
    network(google)


def test_a_name_that_is_taken_is_refused_whatever_the_state_says_and_free_again_after_a_deletion(
    google: Google,
) -> None:
    enabled(google, "compute")
    first = network(google)
    with pytest.raises(
        RefusedCallError, match=r"Error 409: .*projects/my-project/global/networks/net.* already exists"
    ):
        network(google, "other")
    first.delete()
    network(google, "other")


def test_two_stacks_may_enable_an_api_and_hold_a_grant_and_neither_destroy_disables_the_api(
    google: Google, cloud: SimulatedCloud
) -> None:
    for stack in ("dev", "other"):
        service = Resource(google, SERVICE, "compute", stack)
        service.create({"service": "compute.googleapis.com", "project": "my-project", "disableOnDestroy": False})
    service.delete()
    assert "compute.googleapis.com" in cloud.enabled()


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refusal(kind="quota", what="NETWORKS"), "Quota 'NETWORKS' exceeded. Limit: 0.0 in region europe-west4"),
        (Refusal(kind="permission"), "Required 'compute.networks.create' permission for"),
        (Refusal(kind="permission", types=NETWORK, what="compute.networks.delete"), "'compute.networks.delete'"),
        (Refusal(kind="taken"), "Error 409"),
        (Refusal(kind="api"), "has not been used in project"),
    ],
)
def test_a_drill_can_have_google_refuse_and_relent(
    google: Google, cloud: SimulatedCloud, refusal: Refusal, said: str
) -> None:
    enabled(google, "compute")
    cloud.refusals.append(refusal)
    with pytest.raises(RefusedCallError) as refused:
        network(google)
    assert said in refused.value.message
    cloud.refusals.clear()
    network(google)


def test_a_protected_cluster_is_not_deleted_until_the_field_has_been_updated(google: Google) -> None:
    enabled(google, "container")
    cluster = Resource(google, CLUSTER, "cluster")
    inputs = {"name": "cluster", "location": REGION, "project": "my-project", "enableAutopilot": True}
    cluster.create({**inputs, "deletionProtection": True})
    with pytest.raises(RefusedCallError, match="deletion_protection is set to true"):
        cluster.delete()
    cluster.update({**inputs, "deletionProtection": False})
    cluster.delete()
    assert cluster.read().id == ""


def test_a_policy_of_prevention_is_honoured_and_what_is_abandoned_stays_at_google(
    google: Google, cloud: SimulatedCloud
) -> None:
    enabled(google, "compute")
    kept = network(google, deletionPolicy="PREVENT")
    with pytest.raises(RefusedCallError, match="deletion_policy is PREVENT"):
        kept.delete()
    kept.update({**kept.inputs, "deletionPolicy": "ABANDON"})
    kept.delete()
    assert cloud.read(NETWORK, kept.id) is not None


def test_the_api_descriptions_judge_inputs_and_unknown_values_are_left_alone(google: Google) -> None:
    one = Resource(google, BUCKET, "results")
    good = {"name": "results", "location": "EU", "project": "my-project", "uniformBucketLevelAccess": True}
    assert one.check(good) == (good, [])
    _, wrong = one.check({**good, "publicAccessPrevention": "always"})
    assert "publicAccessPrevention" in wrong[0]
    assert one.check({**good, "location": UNKNOWN})[1] == []


def test_a_force_new_field_replaces_and_the_old_one_goes_first_where_the_name_stays(google: Google) -> None:
    enabled(google, "compute")
    one = network(google)
    renamed = one.diff({**one.inputs, "name": "other"})
    assert list(renamed.replaces) == ["name"]
    assert not renamed.deleteBeforeReplace
    described = one.diff({**one.inputs, "description": "another"})
    assert list(described.replaces) == ["description"]
    assert described.deleteBeforeReplace
    assert not one.diff(
        {**one.inputs, "deleteDefaultRoutesOnCreate": True, "routingMode": "GLOBAL"}
    ).deleteBeforeReplace
    assert one.diff(one.inputs).changes == Diff.DIFF_NONE


def test_a_refresh_finds_what_was_changed_or_deleted_by_hand(google: Google, cloud: SimulatedCloud) -> None:
    enabled(google, "compute")
    one = network(google, routingMode="REGIONAL")
    assert decode_struct(one.read().inputs) == one.inputs
    cloud.change(NETWORK, one.id, routingMode="GLOBAL")
    assert decode_struct(one.read().inputs)["routingMode"] == "GLOBAL"
    cloud.delete(NETWORK, one.id)
    assert one.read().id == ""
    with pytest.raises(RefusedCallError, match="Error 404"):
        one.update({**one.inputs, "routingMode": "GLOBAL"})


def test_an_import_reads_the_inputs_from_google(google: Google) -> None:
    enabled(google, "compute")
    made = network(google)
    found = Resource(google, NETWORK, "net", "other").read(made.id)
    assert decode_struct(found.inputs) == made.inputs


def test_a_data_source_that_the_rehearsal_does_not_answer_is_refused_by_name(google: Google) -> None:
    request = provider_pb2.InvokeRequest(tok="gcp:compute/getImage:getImage", args=encode_struct({"name": "x"}))
    with pytest.raises(RefusedCallError, match="gcp:compute/getImage:getImage"):
        google.Invoke(request, Context())
