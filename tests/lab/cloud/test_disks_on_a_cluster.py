"""Disks against Kubernetes' own scheduler and volume binder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lab.cloud.disks import Disks
from lab.cloud.timings import Timings
from lab.cloud.world import SIMULATED_NODE, World
from lab.control_plane.api import (
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CONTENT,
    ClusterApi,
    Manifest,
)
from lab.control_plane.mirror import Mirror
from lab.results.clock import Clock

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
ZONE = "europe-west4-b"
SPACE = "disks"
WAIT = 30.0


@pytest.fixture(scope="module")
def platform(control_plane: ControlPlane, custom_resources: object) -> ClusterApi:
    assert custom_resources
    return control_plane.api


@pytest.fixture
def scene(platform: ClusterApi) -> Iterator[Scene]:
    clock = Clock(600.0)
    world = World(platform, clock)
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    with Disks(world, Timings()), world:
        scene = Scene(platform, world)
        yield scene
        scene.tidy()


class Scene:
    """A namespace, nodes, and what claims, pods and snapshots become."""

    def __init__(self, api: ClusterApi, world: World) -> None:
        self.api, self.world = api, world
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

    def delete(self, manifest: Manifest) -> None:
        from lab.control_plane.api import Kind

        metadata = manifest["metadata"]
        grace = 0 if manifest["kind"] == "Pod" else None
        self.api.delete(Kind.of(manifest), metadata["name"], metadata.get("namespace"), grace_seconds=grace)

    def until(self, mirror: Mirror, condition: Callable[[], Any]) -> Any:
        found = mirror.wait_for(lambda _: condition(), WAIT)
        assert found, f"nothing after {WAIT} s"
        return found

    def storage_class(self, name: str, *, waits: bool) -> None:
        self.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "pd.csi.storage.gke.io",
                "parameters": {"type": "hyperdisk-ml"},
                "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
                "reclaimPolicy": "Delete",
                **({"allowedTopologies": _in(ZONE)} if not waits else {}),
            }
        )

    def claim(self, name: str, class_name: str, mode: str = "ReadWriteOnce", source: str = "") -> None:
        spec: Manifest = {
            "accessModes": [mode],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": "64Gi"}},
        }
        if source:
            spec["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": source}
        self.apply(_object("v1", "PersistentVolumeClaim", name, spec=spec))

    def node(self, name: str) -> None:
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {SIMULATED_NODE: "fake"},
                    "labels": {"topology.gke.io/zone": ZONE, "disks-test": name},
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

    def until_placed(self, *pods: str) -> None:
        def placed() -> bool:
            found = [self.world.pods.get(name, SPACE) for name in pods]
            return all(pod and pod["spec"].get("nodeName") for pod in found)

        self.until(self.world.pods, placed)

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
        self.node("disks-c4a")
        self.claim("writer", "disks-writer")
        self.pod("writer", "writer", "disks-c4a")
        self.until_placed("writer")
        self.api.delete(POD, "writer", SPACE, grace_seconds=0)
        self.snapshot("image", "writer")
        self.until_ready("image")


def test_a_writers_claim_gets_its_disk_with_its_first_pod_and_reaches_a_c4a_node(scene: Scene) -> None:
    scene.storage_class("disks-writer", waits=True)
    scene.claim("writer", "disks-writer")
    scene.node("disks-c4a")
    scene.pod("writer", "writer", "disks-c4a")
    volume = scene.until_bound("writer")
    scene.until_placed("writer")
    assert volume["spec"]["csi"]["volumeHandle"].startswith(f"projects/simulated/zones/{ZONE}/disks/pvc-")
    assert "readOnly" not in volume["spec"]["csi"]


def test_readers_mount_a_disk_made_of_an_image_and_the_image_outlives_everything(scene: Scene) -> None:
    scene.image_of_written_claim()
    scene.storage_class("disks-reader", waits=False)
    scene.claim("reader", "disks-reader", "ReadOnlyMany", source="image")
    volume = scene.until_bound("reader")
    assert volume["spec"]["csi"]["readOnly"] is True
    for number in (1, 2):
        scene.node(f"disks-a4-{number}")
        scene.pod(f"server-{number}", "reader", f"disks-a4-{number}", read_only=True)
    scene.until_placed("server-1", "server-2")
    snapshot = scene.world.snapshots.get("image", SPACE)
    assert snapshot is not None
    content = f"snapcontent-{snapshot['metadata']['uid']}"
    scene.api.delete(VOLUME_SNAPSHOT, "image", SPACE)
    scene.until(scene.world.snapshots, lambda: scene.world.snapshots.get("image", SPACE) is None)
    left = scene.api.get(VOLUME_SNAPSHOT_CONTENT, content)
    assert left is not None
    assert left["status"]["restoreSize"] == 64 * 2**30


def test_an_image_waits_for_the_writer_and_says_so(scene: Scene) -> None:
    scene.storage_class("disks-writer", waits=True)
    scene.node("disks-c4a")
    scene.claim("writer", "disks-writer")
    scene.pod("writer", "writer", "disks-c4a")
    scene.until_placed("writer")
    scene.snapshot("image", "writer")
    assert "writer" in scene.until_warned("SnapshotContentCreationFailed")
    scene.api.delete(POD, "writer", SPACE, grace_seconds=0)
    scene.until_ready("image")


def _here(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("namespace") == SPACE)


def _of_here(volume: Manifest) -> bool:
    return bool((volume["spec"].get("claimRef") or {}).get("namespace") == SPACE)


def _in(zone: str) -> list[Manifest]:
    return [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": [zone]}]}]


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SPACE}, **fields}
