"""What is undone after a rehearsal, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.api import FIELD_MANAGER, Manifest
from rehearsal.autopilot.policies import policies
from rehearsal.giving_back import remove_platform, returned_to_pulumi, take_down
from rehearsal.simulation.provisioning import DRIVER
from tests.rehearsal.apply.fake_cluster import FakeCluster
from tests.rehearsal.apply.test_up import applier, config_maps

PULUMI = {
    "manager": "pulumi-kubernetes-006330ec",
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {}, "f:spec": {"f:selector": {}}},
}
SCALED = {
    "manager": FIELD_MANAGER,
    "operation": "Update",
    "subresource": "scale",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
}
CONTROLLER = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:status": {}},
}


def test_the_number_of_replicas_goes_back_to_whoever_applies_the_deployment() -> None:
    pulumi, controller = returned_to_pulumi([PULUMI, SCALED, CONTROLLER])
    assert pulumi["fieldsV1"]["f:spec"] == {"f:selector": {}, "f:replicas": {}}
    assert pulumi["fieldsV1"]["f:metadata"] == {}
    assert controller == CONTROLLER


def test_nothing_changes_where_nobody_scaled() -> None:
    owners = returned_to_pulumi([PULUMI, CONTROLLER])
    assert returned_to_pulumi(owners) == owners


def test_the_given_owners_are_left_as_they_are() -> None:
    returned_to_pulumi([PULUMI, SCALED])
    assert PULUMI["fieldsV1"] == {"f:metadata": {}, "f:spec": {"f:selector": {}}}


def test_another_ones_scale_stays_his() -> None:
    autoscaler = {**SCALED, "manager": "horizontal-pod-autoscaler"}
    assert autoscaler in returned_to_pulumi([PULUMI, autoscaler])


def test_what_the_program_protects_and_keeps_is_taken_down_too() -> None:
    cluster = FakeCluster()
    applying = applier(cluster)
    applying.up(config_maps("a=1", "b=1", a={"protect": True}, b={"retain_on_delete": True}))
    assert applying.destroy(applying.states[0]).failed  # as the program says, nothing goes
    take_down(as_api(cluster), applying)
    assert left(cluster) == []


def test_disks_and_images_of_the_played_driver_go_and_anothers_stay() -> None:
    cluster = FakeCluster()
    for name, driver in (("ours", DRIVER), ("theirs", "ebs.csi.aws.com")):
        volume = {"kind": "PersistentVolume", "apiVersion": "v1", "spec": {"csi": {"driver": driver}}}
        content = {
            "kind": "VolumeSnapshotContent",
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "spec": {"driver": driver},
        }
        for one in (volume, content):
            cluster.apply({**one, "metadata": {"name": name}})
    cluster.apply({"kind": "PersistentVolume", "apiVersion": "v1", "spec": {}, "metadata": {"name": "local"}})
    take_down(as_api(cluster), applier(cluster))
    assert left(cluster) == ["PersistentVolume/local", "PersistentVolume/theirs", "VolumeSnapshotContent/theirs"]


def test_an_apply_that_was_broken_off_is_taken_down_as_far_as_it_got() -> None:
    def interrupted(one: Manifest) -> None:
        if one["metadata"]["name"] == "b":
            raise KeyboardInterrupt

    cluster = FakeCluster(interrupted)
    applying = applier(cluster)
    with pytest.raises(KeyboardInterrupt):
        applying.up(config_maps("a=1", "b=1", "c=1"))
    assert "ConfigMap/a" in left(cluster)
    take_down(as_api(cluster), applying)
    assert left(cluster) == []


def test_the_rules_and_the_definitions_that_were_added_go_and_no_others() -> None:
    cluster = FakeCluster()
    kind = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"}
    definitions: list[Manifest] = [{**kind, "metadata": {"name": name}} for name in ("ours", "theirs")]
    for one in definitions:
        cluster.apply(one)
    for policy in policies():
        for rule in (policy.manifest, *policy.bindings):
            cluster.apply(rule)
    remove_platform(as_api(cluster), definitions[:1])
    assert left(cluster) == ["CustomResourceDefinition/theirs"]


def left(cluster: FakeCluster) -> list[str]:
    return sorted(f"{kind}/{name}" for kind, _, name in cluster.objects)


def as_api(cluster: FakeCluster) -> Any:
    return cluster
