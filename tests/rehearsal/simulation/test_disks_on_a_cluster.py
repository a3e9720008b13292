"""Disks against Kubernetes' own scheduler and volume binder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.api import (
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    VOLUME_SNAPSHOT_CONTENT,
    ClusterApi,
    Manifest,
)
from rehearsal.clock import Clock
from rehearsal.mirror import Mirror
from rehearsal.simulation.disks import Disks
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import SIMULATED_NODE, VOLUMES_ATTACHED, World
from rehearsal.timeline import Timeline

if TYPE_CHECKING:
    from rehearsal.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
ZONE = "europe-west4-b"
SPACE = "disks"
WAIT = 30.0


@pytest.fixture(scope="module")
def platform(control_plane: ControlPlane) -> ClusterApi:
    from rehearsal.control_plane.modules import module_folders
    from rehearsal.custom_resources.install import install

    install(control_plane.api, module_folders(print))
    return control_plane.api


@pytest.fixture
def scene(platform: ClusterApi) -> Iterator[Scene]:
    clock = Clock(600.0)
    world = World(platform, clock, Timeline(clock))
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    with Disks(world, Timings()) as disks, world:
        scene = Scene(platform, world, disks)
        yield scene
        scene.tidy()


class Scene:
    """A namespace, nodes, and the disks."""

    def __init__(self, api: ClusterApi, world: World, disks: Disks) -> None:
        self.api, self.world, self.disks = api, world, disks
        self._made: list[Manifest] = []

    def apply(self, manifest: Manifest) -> Manifest:
        made = self.api.apply(manifest)
        self._made.append(made)
        return made

    def tidy(self) -> None:
        namespaced = [one for one in reversed(self._made) if one["metadata"].get("namespace")]
        for one in namespaced:
            self.delete(one)
        self.until(self.world.pods, lambda: not [pod for pod in self.world.pods.all() if _here(pod)])
        self.until(self.world.volumes, lambda: not [pv for pv in self.world.volumes.all() if _of_here(pv)])
        for one in self._made:
            if one not in namespaced:
                self.delete(one)
        for uid in (one["metadata"]["uid"] for one in namespaced if one["kind"] == "VolumeSnapshot"):
            self.api.delete(VOLUME_SNAPSHOT_CONTENT, f"snapcontent-{uid}")

    def delete(self, one: Manifest) -> None:
        from rehearsal.api import Kind

        metadata = one["metadata"]
        grace = 0 if one["kind"] == "Pod" else None
        self.api.delete(Kind.of(one), metadata["name"], metadata.get("namespace"), grace_seconds=grace)

    def until(self, mirror: Mirror, condition: Callable[[], Any]) -> Any:
        found = mirror.wait_for(lambda _: condition(), WAIT)
        assert found, f"nothing after {WAIT} s; troubles: {self.disks.troubles()}"
        return found

    def storage_class(self, name: str, *, waits: bool, throughput: str = "400Mi", **more: Any) -> None:
        self.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "pd.csi.storage.gke.io",
                "parameters": {
                    "type": "hyperdisk-ml",
                    "provisioned-throughput-on-create": throughput,
                    **more.get("parameters", {}),
                },
                "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
                "reclaimPolicy": "Delete",
                **({"allowedTopologies": _in(more.get("zones", (ZONE,)))} if not waits else {}),
            }
        )

    def claim(
        self, name: str, class_name: str, mode: str = "ReadWriteOnce", source: str = "", size: str = "64Gi"
    ) -> None:
        spec: Manifest = {
            "accessModes": [mode],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        }
        if source:
            spec["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": source}
        self.apply(_object("v1", "PersistentVolumeClaim", name, spec=spec))

    def node(self, name: str, machine: str, zone: str = ZONE) -> None:
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {SIMULATED_NODE: "fake"},
                    "labels": {
                        "node.kubernetes.io/instance-type": machine,
                        "topology.gke.io/zone": zone,
                        "disks-test": name,
                    },
                },
            }
        )
        room = {"cpu": "64", "memory": "256Gi", "pods": "64"}
        self.api.patch(NODE, name, None, {"status": {"capacity": room, "allocatable": room}}, subresource="status")

    def pod(self, name: str, claim: str, node: str, *, read_only: bool = False) -> None:
        self.apply(
            _object(
                "v1",
                "Pod",
                name,
                spec={
                    "nodeSelector": {"disks-test": node},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "nothing"}],
                    "volumes": [
                        {"name": "weights", "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}
                    ],
                },
            )
        )

    def snapshot(self, name: str, claim: str) -> None:
        self.apply(
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshotClass",
                "metadata": {"name": "disks-images"},
                "driver": "pd.csi.storage.gke.io",
                "deletionPolicy": "Retain",
                "parameters": {"snapshot-type": "images", "image-family": "weights-x"},
            }
        )
        spec = {"volumeSnapshotClassName": "disks-images", "source": {"persistentVolumeClaimName": claim}}
        self.apply(_object("snapshot.storage.k8s.io/v1", "VolumeSnapshot", name, spec=spec))

    def until_bound(self, claim: str) -> Manifest:
        def bound() -> bool:
            found = self.world.claims.get(claim, SPACE)
            return found is not None and found["status"].get("phase") == "Bound"

        self.until(self.world.claims, bound)
        volume = self.api.get(PERSISTENT_VOLUME, self.world.claims.get(claim, SPACE)["spec"]["volumeName"])  # type: ignore[index]
        assert volume is not None
        return volume

    def until_marked(self, *pods: str) -> None:
        def marked() -> bool:
            found = [self.world.pods.get(name, SPACE) for name in pods]
            return all(pod and (pod["metadata"].get("annotations") or {}).get(VOLUMES_ATTACHED) for pod in found)

        self.until(self.world.pods, marked)

    def until_ready(self, snapshot: str) -> None:
        def ready() -> bool:
            found = self.world.snapshots.get(snapshot, SPACE)
            return found is not None and (found.get("status") or {}).get("readyToUse", False)

        self.until(self.world.snapshots, ready)

    def warnings(self, reason: str) -> list[str]:
        return [one["message"] for one in self.api.list_all(EVENT, SPACE) if one["reason"] == reason]

    def until_warned(self, reason: str) -> str:
        with Mirror(self.api, EVENT, namespace=SPACE) as events:
            self.until(events, lambda: self.warnings(reason))
        return self.warnings(reason)[0]

    def image_of_written_claim(self) -> None:
        self.storage_class("disks-writer", waits=True)
        self.node("disks-c4a", "c4a-standard-16")
        self.claim("writer", "disks-writer")
        self.pod("writer", "writer", "disks-c4a")
        self.until_marked("writer")
        self.api.delete(POD, "writer", SPACE, grace_seconds=0)
        self.snapshot("image", "writer")
        self.until_ready("image")


def test_a_writers_claim_gets_its_disk_with_its_first_pod_and_reaches_a_c4a_node(scene: Scene) -> None:
    scene.storage_class("disks-writer", waits=True)
    scene.claim("writer", "disks-writer")
    scene.node("disks-c4a", "c4a-standard-16")
    assert scene.disks.inventory() == ()
    scene.pod("writer", "writer", "disks-c4a")
    volume = scene.until_bound("writer")
    scene.until_marked("writer")
    assert volume["spec"]["csi"]["volumeHandle"].startswith(f"projects/simulated/zones/{ZONE}/disks/pvc-")
    assert "readOnly" not in volume["spec"]["csi"]
    (disk,) = scene.disks.volumes()
    assert (disk.access_mode, list(disk.attached), disk.written_by) == (
        "READ_WRITE_SINGLE",
        ["disks-c4a"],
        ["disks-c4a"],
    )


def test_a_machine_that_cannot_attach_the_disk_shows_on_the_pod_and_in_plain_words(scene: Scene) -> None:
    scene.storage_class("disks-writer", waits=True)
    scene.claim("writer", "disks-writer")
    scene.node("disks-e2", "e2-standard-4")
    scene.pod("writer", "writer", "disks-e2")
    shown = scene.until_warned("FailedAttachVolume")
    assert "hyperdisk-ml disk type cannot be used by e2-standard-4 machine type" in shown
    trouble = scene.disks.why_waiting("Pod", SPACE, "writer")
    assert trouble is not None
    assert trouble.code == "machine-type"
    assert "that family cannot attach hyperdisk-ml" in trouble.message
    pod = scene.api.get(POD, "writer", SPACE)
    assert pod is not None
    assert VOLUMES_ATTACHED not in (pod["metadata"].get("annotations") or {})


def test_readers_mount_a_disk_made_of_an_image_and_the_image_outlives_everything(scene: Scene) -> None:
    scene.image_of_written_claim()
    scene.storage_class("disks-reader", waits=False, throughput="2400Mi")
    scene.claim("reader", "disks-reader", "ReadOnlyMany", source="image")
    volume = scene.until_bound("reader")
    assert volume["spec"]["csi"]["readOnly"] is True
    for number in (1, 2):
        scene.node(f"disks-a4-{number}", "a4-highgpu-8g")
        scene.pod(f"server-{number}", "reader", f"disks-a4-{number}", read_only=True)
    scene.until_marked("server-1", "server-2")
    read = next(one for one in scene.disks.volumes() if one.claim.endswith("/reader"))
    assert (read.access_mode, len(read.attached), read.most_readers) == ("READ_ONLY_MANY", 2, 2)
    kinds = [(one.kind, one.size_gib, one.throughput_mibps) for one in scene.disks.inventory()]
    assert sorted(kinds) == [("disk", 64, 400), ("disk", 64, 2400), ("image", 64, 0)]
    scene.tidy()
    (left,) = scene.disks.inventory()
    assert (left.kind, left.family, left.is_retained) == ("image", "weights-x", True)


def test_an_image_waits_for_the_writer_and_says_so(scene: Scene) -> None:
    scene.storage_class("disks-writer", waits=True)
    scene.node("disks-c4a", "c4a-standard-16")
    scene.claim("writer", "disks-writer")
    scene.pod("writer", "writer", "disks-c4a")
    scene.until_marked("writer")
    scene.snapshot("image", "writer")
    assert "still mounted by writer" in scene.until_warned("SnapshotContentCreationFailed")
    trouble = scene.disks.why_waiting("VolumeSnapshot", SPACE, "image")
    assert trouble is not None
    assert "half a file system" in trouble.message
    scene.api.delete(POD, "writer", SPACE, grace_seconds=0)
    scene.until_ready("image")
    assert scene.disks.why_waiting("VolumeSnapshot", SPACE, "image") is None


def test_a_claim_that_asks_for_the_impossible_stays_pending_and_says_why(scene: Scene) -> None:
    scene.storage_class("disks-fast", waits=False, throughput="200000Mi")
    scene.claim("greedy", "disks-fast", size="64Gi")
    shown = scene.until_warned("ProvisioningFailed")
    assert 'StorageClass "disks-fast"' in shown
    assert "takes at most 102400 MiB/s" in shown
    claim = scene.api.get(PERSISTENT_VOLUME_CLAIM, "greedy", SPACE)
    assert claim is not None
    assert claim["status"]["phase"] == "Pending"


def test_one_claim_for_two_zones_is_two_disks(scene: Scene) -> None:
    scene.image_of_written_claim()
    zones = ("europe-west4-a", ZONE)
    multi = {"enable-multi-zone-provisioning": "true"}
    scene.storage_class("disks-zones", waits=False, zones=zones, parameters=multi)
    scene.claim("everywhere", "disks-zones", "ReadOnlyMany", source="image")
    volume = scene.until_bound("everywhere")
    assert "/zones/multi-zone/disks/" in volume["spec"]["csi"]["volumeHandle"]
    scene.node("disks-a4-far", "a4-highgpu-8g", zone="europe-west4-a")
    scene.pod("far", "everywhere", "disks-a4-far", read_only=True)
    scene.until_marked("far")
    places = [one.location for one in scene.disks.inventory() if one.of.endswith("/everywhere")]
    assert places == ["europe-west4-a", ZONE]


def _here(one: Manifest) -> bool:
    return bool(one["metadata"].get("namespace") == SPACE)


def _of_here(volume: Manifest) -> bool:
    return bool((volume["spec"].get("claimRef") or {}).get("namespace") == SPACE)


def _in(zones: tuple[str, ...]) -> list[Manifest]:
    return [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": list(zones)}]}]


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SPACE}, **fields}
