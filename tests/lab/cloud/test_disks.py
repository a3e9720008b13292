"""The stand-in for Google's disks without a cluster: mirrors are fed by hand, writes are looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cloud.disks import Disks
from lab.cloud.provisioning import DRIVER, PROVISIONER, SELECTED_NODE
from lab.cloud.snapshots import VOLUME_SNAPSHOT_CLASS
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import STORAGE_CLASS, VOLUME_SNAPSHOT_CONTENT, Manifest
from tests.lab.cloud.fake_world import FakeApi, feed, make_world, on_node, pod, until

ZONE = "europe-west4-b"
SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "image"}
_uids = itertools.count(1)


class Scene:
    def __init__(self, world: World, api: FakeApi) -> None:
        self.world, self.api = world, api

    def storage_class(self, *, waits: bool) -> None:
        found: Manifest = {"volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate"}
        if not waits:
            found["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": [ZONE]}]}
            ]
        self.api.objects[STORAGE_CLASS, "class"] = found

    def claim(self, name: str = "claim", *, node: str = "", **spec: Any) -> Manifest:
        annotations = {PROVISIONER: DRIVER, **({SELECTED_NODE: node} if node else {})}
        made = thing("v1", "PersistentVolumeClaim", name, annotations=annotations)
        made["spec"] = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "resources": {"requests": {"storage": "64Gi"}},
            **spec,
        }
        feed(self.world.claims, "added", made)
        return made

    def made(self, kind: str) -> list[Manifest]:
        return [one for one in self.api.created if one["kind"] == kind]

    def bound(self) -> None:
        """A claim with its volume, as the volume binder leaves them."""
        claim = self.claim()
        (volume,) = until(lambda: self.made("PersistentVolume"))
        volume["metadata"]["uid"] = "pv"
        feed(self.world.volumes, "added", volume)
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        feed(self.world.claims, "modified", claim)

    def event(self) -> Manifest:
        """The only event."""
        (event,) = until(lambda: self.made("Event"))
        return dict(event)

    def snapshot(self) -> None:
        """An image of the claim, and its class."""
        made = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
        made["spec"] = {"volumeSnapshotClassName": "images", "source": {"persistentVolumeClaimName": "claim"}}
        self.api.objects[VOLUME_SNAPSHOT_CLASS, "images"] = {
            "metadata": {"name": "images"},
            "driver": DRIVER,
            "deletionPolicy": "Retain",
        }
        feed(self.world.snapshots, "added", made)

    def image(self, name: str, handle: str, **status: Any) -> Manifest:
        """The object that stands for an image: with a status one that was taken here, else one that was there before."""
        content = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", name, namespace="")
        content["spec"]["source"] = {"snapshotHandle": handle}
        content["status"] = {"snapshotHandle": handle, **status} if status else {}
        self.api.objects[VOLUME_SNAPSHOT_CONTENT, content["metadata"]["name"]] = content
        return content

    def snapshot_of(self, content: Manifest) -> Manifest:
        """A snapshot bound to that image, and what its status came to say."""
        made = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
        made["spec"] = {"source": {"volumeSnapshotContentName": content["metadata"]["name"]}}
        feed(self.world.snapshots, "added", made)
        until(self.is_imaged)
        bodies = [body for kind, _, body, _ in self.api.patches if kind == "VolumeSnapshot"]
        status: Manifest = bodies[-1]["status"]
        feed(self.world.snapshots, "modified", {**made, "status": status})
        return status

    def is_imaged(self) -> bool:
        """Whether the image is there, as the snapshot says."""
        return any(
            kind == "VolumeSnapshot" and body["status"]["readyToUse"] for kind, _, body, _ in tuple(self.api.patches)
        )


def thing(api_version: str, kind: str, name: str, *, namespace: str = "vllm", **metadata: Any) -> Manifest:
    own: Manifest = {"name": name, "uid": f"uid-{next(_uids)}", **metadata}
    if namespace:
        own["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": own, "spec": {}}


@pytest.fixture
def scene() -> Iterator[Scene]:
    world, api = make_world()
    with Disks(world, Timings()):
        yield Scene(world, api)


def test_a_claim_nobody_handed_to_the_driver_is_left_alone(scene: Scene) -> None:
    scene.storage_class(waits=False)
    claim = scene.claim("other")
    claim["metadata"] |= {"name": "foreign", "uid": "foreign", "annotations": {PROVISIONER: "somebody.else"}}
    feed(scene.world.claims, "added", claim)
    (volume,) = until(lambda: scene.made("PersistentVolume"))
    assert volume["spec"]["claimRef"]["name"] == "other"


def test_a_class_that_binds_at_once_without_a_zone_is_told_on_the_claim(scene: Scene) -> None:
    scene.storage_class(waits=False)
    del scene.api.objects[STORAGE_CLASS, "class"]["allowedTopologies"]
    scene.claim()
    assert scene.event()["reason"] == "ProvisioningFailed"
    assert scene.made("PersistentVolume") == []


def test_a_node_that_went_before_its_volume_was_made_is_chosen_anew(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.claim(node="gone")
    patch = until(lambda: next((one for one in scene.api.patches if one[0] == "PersistentVolumeClaim"), None))
    assert patch[2] == {"metadata": {"annotations": {SELECTED_NODE: None}}}
    assert scene.made("PersistentVolume") == []


def test_a_claim_deleted_meanwhile_leaves_no_volume(scene: Scene) -> None:
    scene.storage_class(waits=False)
    feed(scene.world.claims, "deleted", scene.claim("gone"))
    scene.claim("other")
    until(lambda: scene.made("PersistentVolume"))
    assert [one["spec"]["claimRef"]["name"] for one in scene.made("PersistentVolume")] == ["other"]


def test_a_volume_smaller_than_its_image_is_told_on_the_claim(scene: Scene) -> None:
    scene.storage_class(waits=False)
    handle = "projects/simulated/global/images/snapshot-1"
    scene.image("taken", handle, readyToUse=True, restoreSize=100 * 2**30)
    assert scene.snapshot_of(scene.image("found", handle))["restoreSize"] == str(100 * 2**30)
    scene.claim(accessModes=["ReadOnlyMany"], dataSource=SOURCE)
    assert "is less than the size" in scene.event()["message"]
    assert scene.made("PersistentVolume") == []


def test_a_snapshot_whose_content_is_missing_says_so(scene: Scene) -> None:
    made = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
    made["spec"] = {"source": {"volumeSnapshotContentName": "gone"}}
    feed(scene.world.snapshots, "added", made)
    assert scene.event()["reason"] == "SnapshotContentMissing"


def test_an_image_of_a_claim_without_a_volume_says_so(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.claim()
    scene.snapshot()
    assert "claim claim" in scene.event()["message"]


def test_an_image_waits_for_the_pod_that_writes_and_names_it(scene: Scene) -> None:
    scene.storage_class(waits=False)
    scene.bound()
    volumes = [{"name": "weights", "persistentVolumeClaim": {"claimName": "claim"}}]
    feed(scene.world.pods, "added", on_node(pod("writer", {"cpu": "1"}, volumes=volumes), "node"))
    scene.snapshot()
    assert "writer" in scene.event()["message"]
    assert scene.made("VolumeSnapshotContent") == []
    feed(scene.world.pods, "deleted", scene.world.pods.all()[0])
    assert until(lambda: scene.made("VolumeSnapshotContent"))[0]["spec"]["deletionPolicy"] == "Retain"


def test_an_image_without_its_class_says_so(scene: Scene) -> None:
    scene.storage_class(waits=False)
    scene.bound()
    snapshot = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
    snapshot["spec"] = {"volumeSnapshotClassName": "gone", "source": {"persistentVolumeClaimName": "claim"}}
    feed(scene.world.snapshots, "added", snapshot)
    assert "no VolumeSnapshotClass gone" in scene.event()["message"]
