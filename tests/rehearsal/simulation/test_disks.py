"""The stand-in for Google's disks without a cluster: mirrors are fed by hand, writes are looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.api import STORAGE_CLASS, Manifest
from rehearsal.simulation.disks import Disks
from rehearsal.simulation.provisioning import DRIVER, PROVISIONER, SELECTED_NODE
from rehearsal.simulation.snapshots import VOLUME_SNAPSHOT_CLASS
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import VOLUMES_ATTACHED, World
from tests.rehearsal.simulation.fake_world import FakeApi, feed, make_world, until

ZONE = "europe-west4-b"
_uids = itertools.count(1)


class Scene:
    def __init__(self, world: World, api: FakeApi, disks: Disks) -> None:
        self.world, self.api, self.disks = world, api, disks

    def storage_class(self, *, waits: bool, **parameters: str) -> None:
        found: Manifest = {
            "parameters": {"type": "hyperdisk-ml", "provisioned-throughput-on-create": "400Mi", **parameters},
            "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        }
        if not waits:
            found["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": [ZONE]}]}
            ]
        self.api.objects[STORAGE_CLASS, "class"] = found

    def node(self, name: str, machine: str = "c4a-standard-8", **annotations: str) -> None:
        labels = {"node.kubernetes.io/instance-type": machine, "topology.gke.io/zone": ZONE}
        feed(self.world.nodes, "added", thing("v1", "Node", name, labels=labels, annotations=annotations))

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

    def pod(self, name: str, *claims: str, node: str = "node", read_only: bool = False) -> Manifest:
        made = thing("v1", "Pod", name)
        made["spec"] = {
            "nodeName": node,
            "volumes": [
                {"name": claim, "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}
                for claim in claims
            ],
        }
        feed(self.world.pods, "added", made)
        return made

    def ends(self, pod: Manifest) -> None:
        feed(self.world.pods, "modified", {**pod, "status": {"phase": "Succeeded"}})

    def nodes_of(self, claim: str = "claim") -> list[str]:
        (volume,) = [one for one in self.disks.volumes() if one.claim == f"vllm/{claim}"]
        return sorted(volume.attached)

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
    until(lambda: scene.made("PersistentVolume"))
    assert [one.claim for one in scene.disks.volumes()] == ["vllm/other"]


def test_a_disk_is_made_in_the_zone_of_the_first_consumers_node(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    (disk,) = scene.disks.volumes()
    assert (disk.zones, disk.size_gib, disk.throughput_mibps) == ((ZONE,), 64, 400)


def test_a_node_that_went_before_its_volume_was_made_is_chosen_anew(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.claim(node="gone")
    patch = until(lambda: next((one for one in scene.api.patches if one[0] == "PersistentVolumeClaim"), None))
    assert patch[2] == {"metadata": {"annotations": {SELECTED_NODE: None}}}
    assert scene.disks.inventory() == ()


def test_a_claim_deleted_meanwhile_leaves_no_disk(scene: Scene) -> None:
    scene.storage_class(waits=False)
    claim = scene.claim()
    until(lambda: scene.disks.inventory())
    feed(scene.world.claims, "deleted", claim)
    until(lambda: not scene.disks.inventory())
    assert scene.made("PersistentVolume") == []


def test_a_trouble_is_told_once_and_tried_again(scene: Scene) -> None:
    scene.storage_class(waits=False, **{"provisioned-throughput-on-create": "1Mi"})
    scene.claim()
    until(lambda: scene.made("Event"))
    until(lambda: scene.disks.why_waiting("PersistentVolumeClaim", "vllm", "claim"))
    scene.storage_class(waits=False)  # somebody corrected it
    until(lambda: scene.made("PersistentVolume"))
    (event,) = scene.made("Event")
    assert event["reason"] == "ProvisioningFailed"
    assert event["message"].startswith('failed to provision volume with StorageClass "class": rpc error: ')
    assert scene.disks.troubles() == {}


def test_a_claim_waits_for_the_image_it_is_made_from(scene: Scene) -> None:
    scene.storage_class(waits=False)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "image"}
    scene.claim(accessModes=["ReadOnlyMany"], dataSource=source)
    until(lambda: scene.made("Event"))
    assert "not found" in scene.made("Event")[0]["message"]
    assert scene.disks.inventory() == ()


def test_a_pod_starts_when_every_volume_of_it_is_there(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound("first")
    scene.claim("second")
    scene.pod("server", "first", "second")
    assert scene.marked() == []
    scene.storage_class(waits=False)
    scene.bound("second")
    until(lambda: set(scene.marked()) == {"server"})
    assert scene.nodes_of("first") == scene.nodes_of("second") == ["node"]


def test_a_volume_of_another_driver_holds_nobody_back(scene: Scene) -> None:
    volume = thing("v1", "PersistentVolume", "nfs", namespace="")
    volume["spec"] = {"nfs": {"server": "x"}}
    feed(scene.world.volumes, "added", volume)
    scene.claim("shared", volume="nfs")
    scene.pod("reader", "shared")
    until(lambda: scene.marked() == ["reader"])


def test_a_refused_attachment_shows_on_the_pod_once_is_tried_again_and_heals(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.node("other")
    scene.bound()
    first = scene.pod("first", "claim")
    until(lambda: scene.marked() == ["first"])
    scene.pod("second", "claim", node="other")
    trouble = until(lambda: scene.disks.why_waiting("Pod", "vllm", "second"))
    assert trouble.code == "one-writer"
    scene.ends(first)
    until(lambda: scene.marked() == ["first", "second"])
    assert scene.disks.why_waiting("Pod", "vllm", "second") is None
    (event,) = scene.made("Event")
    assert event["reason"] == "FailedAttachVolume"
    assert event["message"].startswith('AttachVolume.Attach failed for volume "pvc-uid-')
    assert "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE" in event["message"]


def test_a_second_attempt_elsewhere_waits_for_the_detaching_without_a_word(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.node("other")
    scene.bound()
    first = scene.pod("first", "claim")
    until(lambda: scene.marked() == ["first"])
    scene.ends(first)
    scene.pod("second", "claim", node="other")
    until(lambda: scene.marked() == ["first", "second"])
    assert scene.made("Event") == []
    assert scene.nodes_of() == ["other"]


def test_pods_of_one_node_share_the_disk_and_the_last_lets_it_go(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    first, second = scene.pod("first", "claim"), scene.pod("second", "claim")
    until(lambda: sorted(scene.marked()) == ["first", "second"])
    feed(scene.world.pods, "deleted", first)
    third = scene.pod("third", "claim")
    until(lambda: "third" in scene.marked())
    assert scene.nodes_of() == ["node"]
    for pod in (second, third):
        feed(scene.world.pods, "deleted", pod)
    until(lambda: scene.nodes_of() == [])


def test_a_node_that_vanishes_lets_go_of_its_disks_at_once(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    scene.pod("writer", "claim")
    until(lambda: scene.marked() == ["writer"])
    feed(scene.world.nodes, "deleted", scene.world.nodes.get("node") or {})
    assert scene.nodes_of() == []


def test_a_pod_that_leaves_before_its_disk_has_come_leaves_nothing_attached(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    for number in range(20):
        feed(scene.world.pods, "deleted", scene.pod(f"hasty-{number}", "claim"))
    until(lambda: scene.nodes_of() == [])
    scene.pod("patient", "claim")
    until(lambda: "patient" in scene.marked())
    assert scene.nodes_of() == ["node"]


def test_a_writers_claim_mounted_read_only_is_lost_to_writing(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    mistaken = scene.pod("mistaken", "claim", read_only=True)
    until(lambda: scene.marked() == ["mistaken"])
    feed(scene.world.pods, "deleted", mistaken)
    until(lambda: scene.nodes_of() == [])
    scene.pod("writer", "claim")
    trouble = until(lambda: scene.disks.why_waiting("Pod", "vllm", "writer"))
    assert trouble.code == "read-only-for-good"
    assert "there is no way back" in trouble.message


def test_an_attached_disk_outlasts_its_claim_until_the_node_lets_go(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    name = scene.bound()
    pod = scene.pod("writer", "claim")
    until(lambda: scene.marked() == ["writer"])
    volume = dict(scene.world.volumes.get(name) or {}, status={"phase": "Released"})
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    feed(scene.world.volumes, "modified", volume)
    assert scene.disks.inventory()
    feed(scene.world.pods, "deleted", pod)
    until(lambda: not scene.disks.inventory())
    until(lambda: ("PersistentVolume", name) in scene.api.deleted)


@pytest.mark.parametrize(("policy", "stays"), [("Retain", 1), ("Delete", 0)])
def test_an_image_stays_or_goes_with_its_snapshot_as_the_class_says(scene: Scene, policy: str, stays: int) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    pod = scene.pod("writer", "claim")
    until(lambda: scene.marked() == ["writer"])
    parameters = {"snapshot-type": "images", "image-family": "weights"}
    scene.api.objects[VOLUME_SNAPSHOT_CLASS, "images"] = {
        "metadata": {"name": "images"},
        "driver": DRIVER,
        "deletionPolicy": policy,
        "parameters": parameters,
    }
    snapshot = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
    snapshot["spec"] = {"volumeSnapshotClassName": "images", "source": {"persistentVolumeClaimName": "claim"}}
    feed(scene.world.snapshots, "added", snapshot)
    until(lambda: scene.disks.why_waiting("VolumeSnapshot", "vllm", "image"))
    scene.ends(pod)
    until(lambda: [one for one in scene.disks.inventory() if one.kind == "image"])
    feed(scene.world.snapshots, "deleted", snapshot)
    if not stays:
        until(lambda: ("VolumeSnapshotContent", f"snapcontent-{snapshot['metadata']['uid']}") in scene.api.deleted)
    images = [one for one in scene.disks.inventory() if one.kind == "image"]
    assert len(images) == stays


def test_an_image_of_a_disk_that_nobody_wrote_is_noted(scene: Scene) -> None:
    scene.storage_class(waits=True)
    scene.node("node")
    scene.bound()
    scene.api.objects[VOLUME_SNAPSHOT_CLASS, "images"] = {
        "metadata": {"name": "images"},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    }
    snapshot = thing("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "image")
    snapshot["spec"] = {"volumeSnapshotClassName": "images", "source": {"persistentVolumeClaimName": "claim"}}
    feed(scene.world.snapshots, "added", snapshot)
    until(lambda: any("nobody has written" in one.text for one in scene.world.timeline.moments()))
