"""Simulated volume provisioning: external-provisioner and Google's PD CSI driver."""

from __future__ import annotations

import threading
from math import ceil
from typing import Final

from lab.cloud.agenda import Agenda, Backoff
from lab.cloud.disk_reports import DiskReports
from lab.cloud.pod_needs import quantity
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    ApiRefusedError,
    Manifest,
)
from lab.control_plane.mirror import Change

DRIVER: Final = "pd.csi.storage.gke.io"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Annotation with which kube-controller-manager assigns a claim to a driver."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
ZONE: Final = "topology.gke.io/zone"
SIMULATED_PROJECT: Final = "simulated"
"""Placeholder project in volume handles."""
DELETE_SECONDS: Final = 10.0
"""Deletion of a detached disk. Assumed."""


class Provisioning:
    """Creates disks for claims and deletes them with their volumes."""

    def __init__(self, world: World, agenda: Agenda, reports: DiskReports, timings: Timings) -> None:
        self._world, self._agenda, self._reports, self._timings = world, agenda, reports, timings
        self._busy: set[str] = set()
        self._backoff = Backoff()
        self._lock = threading.Lock()
        world.claims.listen(self._on_claim)
        world.volumes.listen(self._on_volume)

    # Claims

    def _on_claim(self, change: Change, claim: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        if change == "deleted":
            self._reports.clear(claim)
            self._backoff.forget(claim["metadata"]["uid"])
            self._give_up(claim)
        elif _wants_volume(claim) and self._take(claim["metadata"]["uid"]):
            self._agenda.soon(self._provision, claim["metadata"]["namespace"], claim["metadata"]["name"])

    def _provision(self, namespace: str, name: str) -> None:
        claim = self._world.claims.get(name, namespace)
        if claim is None or not _wants_volume(claim):
            self._give_up(claim)
            return
        uid, spec = claim["metadata"]["uid"], claim["spec"]
        storage_class = self._world.api.get(STORAGE_CLASS, spec["storageClassName"])
        if storage_class is None:
            self._again(claim)
            return
        waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        node = self._world.nodes.get((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""))
        if waits and node is None:
            # The node was removed before its volume was created: the scheduler chooses another.
            self._world.api.patch(
                PERSISTENT_VOLUME_CLAIM, name, namespace, {"metadata": {"annotations": {SELECTED_NODE: None}}}
            )
            self._give_up(claim)
            return
        zone = zone_of(node) if waits and node is not None else _zone_of_class(storage_class)
        trouble = self._source_trouble(claim) if zone else "no available topology found"
        if trouble:
            prefix = f'failed to provision volume with StorageClass "{spec["storageClassName"]}": '
            self._reports.trouble(claim, "ProvisioningFailed", prefix + trouble)
            self._again(claim)
            return
        self._backoff.forget(uid)
        self._reports.clear(claim)
        takes = self._timings.disk_restore_seconds if spec.get("dataSource") else self._timings.disk_create_seconds
        self._agenda.after(takes, self._made, claim, storage_class, zone)

    def _made(self, claim: Manifest, storage_class: Manifest, zone: str) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        current = self._world.claims.get(name, namespace)
        if current is None or current["metadata"]["uid"] != claim["metadata"]["uid"]:
            return
        volume = _volume_manifest(claim, storage_class, zone)
        try:
            self._world.api.create(volume)
        except ApiRefusedError as refusal:
            if refusal.status != 409:
                raise

    def _source_trouble(self, claim: Manifest) -> str:
        """Why the claim's VolumeSnapshot cannot be restored yet; empty if it can, or if there is none."""
        named = claim["spec"].get("dataSource")
        if not named:
            return ""
        snapshot = self._world.snapshots.get(named["name"], claim["metadata"]["namespace"])
        if snapshot is None:
            return f'volumesnapshots "{named["name"]}" not found'
        status = snapshot.get("status") or {}
        if not status.get("readyToUse"):
            return f"snapshot {named['name']} is not Ready"
        # Source: external-provisioner, controller.go, getSnapshotSource.
        wanted, least = quantity(claim["spec"]["resources"]["requests"]["storage"]), quantity(status.get("restoreSize"))
        return (
            f"requested volume size {wanted:.0f} is less than the size {least:.0f} for the source snapshot {named['name']}"
            if wanted < least
            else ""
        )

    # Volumes

    def _on_volume(self, change: Change, volume: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        if (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) != DRIVER:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
            return
        is_released = (volume.get("status") or {}).get("phase") == "Released"
        if (change == "deleted" or is_released) and self._take(volume["metadata"]["uid"]):
            self._agenda.after(DELETE_SECONDS, self._delete, volume)

    def _delete(self, volume: Manifest) -> None:
        name = volume["metadata"]["name"]
        self._world.api.delete(PERSISTENT_VOLUME, name)

    # Bookkeeping

    def _take(self, uid: str) -> bool:
        with self._lock:
            if uid in self._busy:
                return False
            self._busy.add(uid)
            return True

    def _give_up(self, claim: Manifest | None) -> None:
        if claim is not None:
            with self._lock:
                self._busy.discard(claim["metadata"]["uid"])

    def _again(self, claim: Manifest) -> None:
        metadata = claim["metadata"]
        pause = self._backoff.pause_seconds(metadata["uid"])
        self._agenda.after(pause, self._provision, metadata["namespace"], metadata["name"])


def size_gib(storage: str) -> int:
    """A claim's size in whole GiB, rounded up, as the disk's."""
    return ceil(quantity(storage) / 2**30)


def zone_of(node: Manifest) -> str:
    """The node's zone; empty if missing."""
    labels = node["metadata"].get("labels") or {}
    zone: str = labels.get(ZONE) or labels.get("topology.kubernetes.io/zone") or ""
    return zone


def _zone_of_class(storage_class: Manifest) -> str:
    """The first zone that the class allows; empty if unrestricted."""
    for term in storage_class.get("allowedTopologies") or ():
        for expression in term.get("matchLabelExpressions") or ():
            if expression["key"] == ZONE:
                return str(expression["values"][0])
    return ""


def _wants_volume(claim: Manifest) -> bool:
    metadata = claim["metadata"]
    return (
        (metadata.get("annotations") or {}).get(PROVISIONER) == DRIVER
        and not claim["spec"].get("volumeName")
        and bool(claim["spec"].get("storageClassName"))
        and not metadata.get("deletionTimestamp")
    )


def _volume_name(claim: Manifest) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _volume_manifest(claim: Manifest, storage_class: Manifest, zone: str) -> Manifest:
    metadata, spec = claim["metadata"], claim["spec"]
    name = _volume_name(claim)
    csi: Manifest = {
        "driver": DRIVER,
        "volumeHandle": f"projects/{SIMULATED_PROJECT}/zones/{zone}/disks/{name}",
        "fsType": "ext4",
    }
    if spec["accessModes"] == ["ReadOnlyMany"]:
        # GKE's driver runs external-provisioner with --controller-publish-readonly.
        csi["readOnly"] = True
    where = [{"key": ZONE, "operator": "In", "values": [zone]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "accessModes": list(spec["accessModes"]),
            "capacity": {"storage": f"{size_gib(spec['resources']['requests']['storage'])}Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "csi": csi,
            "mountOptions": list(storage_class.get("mountOptions") or ()),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": where}]}},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": spec["storageClassName"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
        },
    }
