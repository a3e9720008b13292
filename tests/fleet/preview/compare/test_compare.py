"""What the engine would do with each resource, and what forces it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.preview.compare.compare import compare
from fleet.preview.record.recording import Alias, RecordedResource, urn_of
from fleet.preview.record.values import UNKNOWN, Secret
from tests.fleet.preview.compare.test_structural_diff import VALUES
from tests.fleet.preview.fleets import (
    ALL,
    CLUSTER,
    ON_CLUSTER,
    PROVIDER,
    ROOT,
    SCRIPT,
    SERVER,
    WEIGHTS,
    changes_of,
    edited,
    one_of,
    recording,
)
from tests.fleet.preview.programs import TOKEN
from tests.fleet.preview.sample_report import PROJECT, STACK, resource


@given(st.lists(st.dictionaries(st.sampled_from(["spec", "data", "metadata", "name"]), VALUES), max_size=4))
def test_no_recording_differs_from_itself(inputs: list[dict[str, Any]]) -> None:
    kinds = ("kubernetes:core/v1:Secret", "gcp:compute/network:Network", "acme:x:Y", "kubernetes:apps/v1:Deployment")
    made = [resource(kind, f"r{n}", ROOT, inputs=one) for n, (kind, one) in enumerate(zip(kinds, inputs, strict=False))]
    changes = compare(recording(*made), recording(*made))
    assert not changes.pending


def test_what_is_new_is_created_and_what_is_gone_is_deleted() -> None:
    changes = changes_of(
        resource("kubernetes:core/v1:Service", "extra", ROOT, provider=ON_CLUSTER), without=("script",)
    )
    assert one_of(changes, "extra").operation == "create"
    assert one_of(changes, "extra").old_urn == ""
    assert one_of(changes, "script").operation == "delete"
    assert changes.resources[-1].name == "script"


@pytest.mark.parametrize(
    ("one", "path", "value", "certainty"),
    [
        (CLUSTER, "location", "us-central1", "provider source"),
        (CLUSTER, "ipAllocationPolicy/clusterSecondaryRangeName", "pods", "provider source"),
        (SERVER, "spec/selector/matchLabels/app", "other", "pulumi-kubernetes provider"),
        (WEIGHTS, "spec/storageClassName", "slow", "pulumi-kubernetes provider"),
        (WEIGHTS, "spec/dataSource", {"name": "image"}, "Kubernetes immutable field"),
        (SCRIPT, "data/run.sh", "false\n", "pulumi-kubernetes provider"),
        (SCRIPT, "metadata/name", "other", "pulumi-kubernetes provider"),
    ],
)
def test_what_cannot_change_in_place_is_replaced(one: RecordedResource, path: str, value: Any, certainty: str) -> None:
    change = one_of(changes_of(edited(one, path, value)), one.name)
    assert change.operation == "replace"
    assert change.reasons[0].certainty == certainty
    assert change.reasons[0].source
    assert change.reasons[0].path.startswith(path.split("/")[0])
    assert not change.guessed


@pytest.mark.parametrize(
    ("one", "path", "value"),
    [
        (CLUSTER, "releaseChannel/channel", "STABLE"),
        (WEIGHTS, "spec/resources/requests/storage", "128Gi"),
        (SERVER, "spec/template/spec/containers/0/image", "vllm:2"),
    ],
)
def test_what_can_change_in_place_is_updated(one: RecordedResource, path: str, value: Any) -> None:
    assert one_of(changes_of(edited(one, path, value)), one.name).operation == "update"


def test_a_replaced_object_of_the_same_name_goes_first() -> None:
    assert one_of(changes_of(edited(SCRIPT, "data/run.sh", "")), "script").delete_first
    assert not one_of(changes_of(edited(SCRIPT, "metadata/name", "other")), "script").delete_first
    asked = edited(SCRIPT, "data/run.sh", "", delete_before_replace=False)
    assert not one_of(changes_of(asked), "script").delete_first


def test_a_type_nobody_knows_is_guessed_at_and_says_so() -> None:
    was, now = (resource("acme:disks:Disk", "disk", ROOT, inputs={"zone": zone, "size": 1}) for zone in "ab")
    change = one_of(compare(recording(was), recording(now)), "disk")
    assert (change.operation, change.guessed) == ("replace", True)
    larger = replace(was, inputs={"zone": "a", "size": 2})
    assert one_of(compare(recording(was), recording(larger)), "disk").operation == "update"


def test_the_program_may_ask_for_a_replacement_or_ignore_a_change() -> None:
    larger = edited(SERVER, "spec/replicas", 8)
    asked = one_of(changes_of(replace(larger, replace_on_changes=("spec.replicas",))), "server")
    assert (asked.operation, asked.reasons[0].certainty) == ("replace", "the program")
    ignored = one_of(changes_of(replace(larger, ignore_changes=("spec.replicas",))), "server")
    assert (ignored.operation, ignored.properties) == ("same", ())


def test_a_replaced_cluster_takes_its_provider_and_everything_on_it_with_it() -> None:
    changes = changes_of(edited(CLUSTER, "location", "us-central1"))
    assert {one.name: one.operation for one in changes.resources if one.custom} == dict.fromkeys(
        ("cluster", "kubernetes", "namespace", "weights", "script", "server"), "replace"
    )
    [reason] = one_of(changes, "server").reasons
    assert reason.certainty == "the engine"
    assert "provider kubernetes" in reason.source
    assert changes.summary["replace"] == 6


def test_an_updated_cluster_leaves_what_is_on_it_alone() -> None:
    changes = changes_of(edited(CLUSTER, "releaseChannel/channel", "STABLE"))
    assert [one.name for one in changes.changed] == ["cluster"]


def test_what_comes_from_something_replaced_may_change() -> None:
    network = resource("gcp:compute/network:Network", "net", ROOT, inputs={"name": "n"})
    subnet = resource(
        "gcp:compute/subnetwork:Subnetwork",
        "subnet",
        ROOT,
        inputs={"name": "s", "network": UNKNOWN},
        property_dependencies={"network": (network.urn,)},
    )
    user = resource(
        "gcp:compute/router:Router",
        "router",
        ROOT,
        inputs={"name": "r", "description": UNKNOWN},
        property_dependencies={"description": (network.urn,)},
    )
    renamed = replace(network, inputs={"name": "m"})
    changes = compare(recording(network, subnet, user), recording(renamed, subnet, user))
    assert one_of(changes, "net").operation == "replace"
    assert one_of(changes, "subnet").operation == "replace"
    assert one_of(changes, "subnet").maybe
    assert [(one.path, one.kind) for one in one_of(changes, "router").properties] == [("description", "may change")]


def test_another_source_of_an_unknown_value_may_change_it() -> None:
    one, other = (
        resource("gcp:compute/network:Network", name, ROOT, inputs={"name": name}) for name in ("one", "other")
    )
    subnets = [
        resource(
            "gcp:compute/subnetwork:Subnetwork",
            "subnet",
            ROOT,
            inputs={"network": UNKNOWN},
            property_dependencies={"network": (source.urn,)},
        )
        for source in (one, other)
    ]
    changes = compare(recording(one, other, subnets[0]), recording(one, other, subnets[1]))
    change = one_of(changes, "subnet")
    assert (change.operation, change.maybe) == ("replace", True)


def test_an_address_range_that_only_grows_is_an_update() -> None:
    subnet = resource("gcp:compute/subnetwork:Subnetwork", "subnet", ROOT, inputs={"ipCidrRange": "10.0.16.0/20"})
    wider, elsewhere = (replace(subnet, inputs={"ipCidrRange": to}) for to in ("10.0.0.0/16", "10.1.0.0/20"))
    assert one_of(compare(recording(subnet), recording(wider)), "subnet").operation == "update"
    assert one_of(compare(recording(subnet), recording(elsewhere)), "subnet").operation == "replace"


@pytest.mark.parametrize(
    ("after", "operation", "maybe"),
    [
        ("clusters: [{name: a, cluster: {server: https://1}}]\nusers: [{name: other}]", "update", False),
        ("clusters: [{name: a, cluster: {server: https://2}}]", "replace", False),
        ("nothing: known", "replace", True),
    ],
)
def test_a_kubeconfig_replaces_its_provider_if_it_leads_elsewhere(after: str, operation: str, maybe: bool) -> None:
    before = "clusters: [{name: a, cluster: {server: https://1}}]"
    was, now = (
        replace(PROVIDER, inputs={"kubeconfig": Secret(text)}, property_dependencies={}) for text in (before, after)
    )
    changes = compare(recording(was), recording(now))
    assert (one_of(changes, "kubernetes").operation, one_of(changes, "kubernetes").maybe) == (operation, maybe)
    assert one_of(changes, "server").operation == ("replace" if operation == "replace" else "same")
    assert "https" not in repr(changes)


@pytest.mark.parametrize(
    ("before", "after", "operation"),
    [("one", "one", "update"), ("one", "two", "replace"), (None, "one", "replace"), ("one", None, "replace")],
)
def test_an_identifier_before_and_after_decides_alone(before: str | None, after: str | None, operation: str) -> None:
    servers = (
        "clusters: [{name: a, cluster: {server: https://1}}]",
        "clusters: [{name: a, cluster: {server: https://2}}]",
    )
    was, now = (
        replace(
            PROVIDER,
            inputs={"kubeconfig": Secret(text)} | ({"clusterIdentifier": identifier} if identifier else {}),
            property_dependencies={},
        )
        for text, identifier in zip(servers, (before, after), strict=True)
    )
    assert one_of(compare(recording(was), recording(now)), "kubernetes").operation == operation


def test_another_provider_may_lead_elsewhere() -> None:
    other = resource("pulumi:providers:kubernetes", "other", ROOT, inputs={"kubeconfig": Secret(UNKNOWN)})
    moved = replace(SCRIPT, provider=f"{other.urn}::[unknown]")
    change = one_of(compare(recording(other), recording(other, moved)), "script")
    assert (change.operation, change.maybe) == ("replace", True)


def test_a_renamed_provider_with_an_alias_replaces_nothing() -> None:
    urn = urn_of(stack=STACK, project=PROJECT, parent=ROOT.urn, type_=PROVIDER.type, name="renamed")
    renamed = replace(PROVIDER, urn=urn, name="renamed", aliases=(Alias(name="kubernetes"),))
    moved = [replace(one, provider=f"{urn}::[unknown]") for one in ALL if one.provider]
    after = replace(recording(), resources=(ROOT, CLUSTER, renamed, *moved))
    changes = compare(recording(), after)
    assert changes.summary["same"] == len(ALL)
    assert [(one.name, one.moved) for one in changes.changed] == [("renamed", True)]


def test_an_alias_carries_an_update_along() -> None:
    urn = urn_of(stack=STACK, project=PROJECT, parent=ROOT.urn, type_=SCRIPT.type, name="renamed")
    renamed = edited(SCRIPT, "metadata/labels", {"a": "b"}, urn=urn, name="renamed", aliases=(Alias(name="script"),))
    change = one_of(compare(recording(), recording(renamed, without=("script",))), "renamed")
    assert (change.operation, change.old_urn) == ("update", SCRIPT.urn)


def test_contested_aliases_are_a_danger() -> None:
    made = [
        replace(
            SCRIPT,
            urn=urn_of(stack=STACK, project=PROJECT, parent=ROOT.urn, type_=SCRIPT.type, name=name),
            name=name,
            aliases=(Alias(name="script"),),
        )
        for name in ("b", "c")
    ]
    changes = compare(recording(), recording(*made, without=("script",)))
    assert [one.id for one in changes.dangers] == ["alias-conflict"]


def test_options_that_matter_are_told_and_change_no_cloud_resource() -> None:
    change = one_of(changes_of(replace(CLUSTER, protect=False)), "cluster")
    assert change.operation == "same"
    assert [(one.path, one.before, one.after) for one in change.options] == [("protect", True, False)]
    assert changes_of(replace(CLUSTER, protect=False)).pending


def test_a_protected_or_retained_resource_says_so() -> None:
    assert one_of(changes_of(edited(CLUSTER, "location", "x")), "cluster").protected
    kept = replace(WEIGHTS, retain_on_delete=True)
    gone = one_of(compare(recording(kept), recording(without=("weights",))), "weights")
    assert (gone.operation, gone.retained) == ("delete", True)


def test_no_secret_leaves_a_comparison() -> None:
    secret = "kubernetes:core/v1:Secret"
    was = resource(secret, "token", ROOT, inputs={"stringData": {"token": "hush-one"}, "note": f"with {TOKEN}"})
    now = replace(
        was, inputs={"stringData": {"token": "hush-two"}, "note": f"still {TOKEN}", "x": Secret("hush-three")}
    )
    changes = compare(recording(was), recording(now, secrets=frozenset({TOKEN})))
    change = one_of(changes, "token")
    assert [(one.path, one.before, one.after, one.secret) for one in change.properties] == [
        ("note", "with [secret]", "still [secret]", False),
        ("stringData.token", "[secret]", "[secret]", True),
        ("x", None, "[secret]", True),
    ]
    assert "hush" not in repr(changes)
    assert TOKEN not in repr(changes)


def test_exports_are_compared() -> None:
    changes = changes_of(outputs={"usdPerHour": 400.0, "usdPerHourIsAtLeast": True, "new": 1})
    assert [(one.path, one.before, one.after) for one in changes.outputs] == [
        ("new", None, 1),
        ("usdPerHour", 391.32, 400.0),
    ]
    assert changes.pending
