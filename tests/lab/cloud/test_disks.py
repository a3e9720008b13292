"""The stand-in for Google's disks without a cluster: mirrors are fed by hand, writes are looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cloud.attachments import loses_mount_options
from lab.cloud.disks import Disks
from lab.cloud.provisioning import DRIVER, PROVISIONER, SELECTED_NODE
from lab.cloud.snapshots import VOLUME_SNAPSHOT_CLASS
from lab.cloud.timings import Timings
from lab.cloud.world import VOLUMES_ATTACHED, World, has_open_journal
from lab.control_plane.api import STORAGE_CLASS, VOLUME_SNAPSHOT_CONTENT, Manifest
from tests.lab.cloud.fake_world import FakeApi, feed, make_world, until

ZONE = "europe-west4-b"
SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "image"}
_uids = itertools.count(1)


class Scene:
    def __init__(self, world: World, api: FakeApi, disks: Disks) -> None:
        self.world, self.api, self.disks = world, api, disks

    def storage_class(self, *, waits: bool, disk_type: str = "pd-balanced") -> None:
        found: Manifest = {
            "parameters": {"type": disk_type},
            "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        }
        if not waits:
            found["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": [ZONE]}]}
            ]
        self.api.objects[STORAGE_CLASS, "class"] = found

    def node(self, name: str, machine_type: str = "") -> None:
        labels = {
            "topology.gke.io/zone": ZONE,
            "node.kubernetes.io/instance-type": machine_type,
            "cloud.google.com/machine-family": machine_type.partition("-")[0],
        }
        feed(self.world.nodes, "added", thing("v1", "Node", name, labels=labels))

    def claim(self, name: str = "claim", *, node: str = "", volume: str = "", **spec: Any) -> Manifest:
        annotations = {PROVISIONER: DRIVER, **({SELECTED_NODE: node} if node else {})}
        made = thing("v1", "PersistentVolumeClaim", name, annotations=annotations)
        made["spec"] = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "resources": {"requests": {"storage": "64Gi"}},
            **({"volumeName": volume} if volume else {}),
            **spec,
        }
        feed(self.world.claims, "added", made)
        return made

    def made(self, kind: str) -> list[Manifest]:
        return [one for one in self.api.created if one["kind"] == kind]

    def bound(self, name: str = "claim", node: str = "node", **spec: Any) -> str:
        """A claim with its volume, as the volume binder leaves them; the volume's name."""
        before = len(self.made("PersistentVolume"))
        claim = self.claim(name, node=node, **spec)
        until(lambda: len(self.made("PersistentVolume")) > before)
        volume = self.made("PersistentVolume")[-1]
        volume["metadata"]["uid"] = f"pv-{name}"
        feed(self.world.volumes, "added", volume)
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        feed(self.world.claims, "modified", claim)
        found: str = volume["metadata"]["name"]
        return found

    def pod(self, name: str, *claims: str, node: str = "node") -> Manifest:
        made = thing("v1", "Pod", name)
        made["spec"] = {
            "nodeName": node,
            "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
        }
        feed(self.world.pods, "added", made)
        return made

    def ends(self, pod: Manifest) -> None:
        feed(self.world.pods, "modified", {**pod, "status": {"phase": "Succeeded"}})

    def holds(self, claim: str = "claim") -> bool:
        """Whether a node has the claim's volume."""
        found = self.world.claims.get(claim, "vllm")
        assert found is not None
        return self.disks.attachments.holds(found["spec"]["volumeName"])

    def event(self) -> Manifest:
        """The only event."""
        (event,) = until(lambda: self.made("Event"))
        return dict(event)

    def snapshot(self, claim: str = "claim") -> Manifest:
        """An image of the claim, and its class."""
        made = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
        made["spec"] = {"volumeSnapshotClassName": "images", "source": {"persistentVolumeClaimName": claim}}
        self.api.objects[VOLUME_SNAPSHOT_CLASS, "images"] = {
            "metadata": {"name": "images"},
            "driver": DRIVER,
            "deletionPolicy": "Retain",
        }
        feed(self.world.snapshots, "added", made)
        return made

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

    def marked(self) -> list[str]:
        return [
            name
            for kind, name, body, _ in tuple(self.api.patches)
            if kind == "Pod" and body["metadata"]["annotations"].get(VOLUMES_ATTACHED) == "attached"
        ]


def thing(api_version: str, kind: str, name: str, *, namespace: str = "vllm", **metadata: Any) -> Manifest:
    own: Manifest = {"name": name, "uid": f"uid-{next(_uids)}", **metadata}
    if namespace and kind != "Node":
        own["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": own, "spec": {}}


@pytest.fixture
def scene() -> Iterator[Scene]:
    world, api = make_world()
    with Disks(world, Timings()) as disks:
        yield Scene(world, api, disks)


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


@pytest.mark.parametrize(
    ("disk_type", "machine_type", "attaches"),
    [
        ("hyperdisk-ml", "g2-standard-12", True),
        ("hyperdisk-ml", "a3-highgpu-1g", True),
        ("hyperdisk-ml", "e2-standard-8", False),
        ("pd-balanced", "g2-standard-12", True),
        ("pd-balanced", "a4-highgpu-8g", False),
    ],
)
def test_a_machine_attaches_the_disks_of_its_family_and_others_are_told_on_the_pod(
    scene: Scene, disk_type: str, machine_type: str, attaches: bool
) -> None:
    scene.storage_class(waits=False, disk_type=disk_type)
    scene.node("node", machine_type)
    scene.bound()
    scene.pod("server", "claim")
    if attaches:
        assert until(scene.marked) == ["server"]
        return
    event = scene.event()
    assert (event["involvedObject"]["name"], event["reason"]) == ("server", "FailedAttachVolume")
    assert f"'{disk_type}' is not a compatible disk type with the machine type {machine_type}" in event["message"]
    assert not scene.holds()


def test_a_second_attempt_elsewhere_waits_until_the_disk_is_detached(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.node("other")
    scene.bound()
    first = scene.pod("first", "claim")
    until(lambda: scene.marked() == ["first"])
    scene.pod("second", "claim", node="other")
    scene.ends(first)
    until(lambda: scene.marked() == ["first", "second"])
    moments = [moment.text for moment in scene.world.timeline.moments() if moment.lane == "volume"]
    assert moments[-3:] == ["attached to node", "detached from node", "attached to other"]


def test_a_node_that_vanishes_lets_go_of_its_disks_at_once(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    scene.pod("writer", "claim")
    until(lambda: scene.marked() == ["writer"])
    feed(scene.world.nodes, "deleted", scene.world.nodes.get("node") or {})
    assert not scene.holds()


def test_a_pod_that_leaves_before_its_disk_has_come_leaves_nothing_attached(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    for number in range(20):
        feed(scene.world.pods, "deleted", scene.pod(f"hasty-{number}", "claim"))
    until(lambda: not scene.holds())
    scene.pod("patient", "claim")
    until(lambda: "patient" in scene.marked())
    assert scene.holds()


@pytest.mark.parametrize("options", [["noload", "read_ahead_kb=4096"], ["read_ahead_kb=4096"]])
def test_an_image_taken_when_its_writer_ends_is_mounted_as_its_class_says_with_noload_alone(
    scene: Scene, options: list[str]
) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    scene.pod("writer", "claim")
    until(lambda: scene.marked() == ["writer"])
    feed(scene.world.pods, "deleted", scene.world.pods.get("writer", "vllm") or {})
    snapshot = scene.snapshot()
    until(scene.is_imaged)
    (content,) = scene.made("VolumeSnapshotContent")
    scene.api.objects[VOLUME_SNAPSHOT_CONTENT, content["metadata"]["name"]] = content
    status = {"readyToUse": True, "boundVolumeSnapshotContentName": content["metadata"]["name"]}
    feed(scene.world.snapshots, "modified", {**snapshot, "status": status})
    scene.api.objects[STORAGE_CLASS, "class"]["mountOptions"] = options
    scene.bound("reader", accessModes=["ReadOnlyMany"], dataSource=SOURCE)
    scene.pod("server", "reader")
    until(lambda: "server" in scene.marked())
    (volume,) = (one for one in scene.made("PersistentVolume") if one["spec"]["claimRef"]["name"] == "reader")
    assert loses_mount_options(volume) is ("noload" not in options)
    told = [
        moment.text for moment in scene.world.timeline.moments() if moment.subject == "reader" and moment.mood == "bad"
    ]
    assert bool(told) is loses_mount_options(volume)


def test_a_disk_that_nobody_mounted_has_no_open_journal(scene: Scene) -> None:
    scene.storage_class(waits=False)
    scene.bound()
    scene.snapshot()
    until(scene.is_imaged)
    (content,) = scene.made("VolumeSnapshotContent")
    assert not has_open_journal(content)


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


def test_an_image_without_its_class_says_so(scene: Scene) -> None:
    scene.storage_class(waits=False)
    scene.bound()
    snapshot = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
    snapshot["spec"] = {"volumeSnapshotClassName": "gone", "source": {"persistentVolumeClaimName": "claim"}}
    feed(scene.world.snapshots, "added", snapshot)
    assert "no VolumeSnapshotClass gone" in scene.event()["message"]
