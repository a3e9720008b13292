"""Simulated snapshot controller and driver: images of volumes, and snapshots of existing images."""

from __future__ import annotations

import threading
from typing import Final

from lab.cloud.agenda import Agenda, Backoff
from lab.cloud.disk_reports import DiskReports, timestamp
from lab.cloud.pod_needs import quantity
from lab.cloud.provisioning import DRIVER, SIMULATED_PROJECT
from lab.cloud.timings import Timings
from lab.cloud.world import World, has_ended
from lab.control_plane.api import VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT, ApiRefusedError, Kind, Manifest
from lab.control_plane.mirror import Change

VOLUME_SNAPSHOT_CLASS: Final = Kind("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass")


class Snapshots:
    """Takes images of claims that no pod writes to."""

    def __init__(self, world: World, agenda: Agenda, reports: DiskReports, timings: Timings) -> None:
        self._world, self._agenda, self._reports, self._timings = world, agenda, reports, timings
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._backoff = Backoff()
        world.snapshots.listen(self._on_snapshot)

    def _on_snapshot(self, change: Change, snapshot: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        uid = snapshot["metadata"]["uid"]
        if change == "deleted":
            self._reports.clear(snapshot)
            self._backoff.forget(uid)
            return  # Content and image stay, as the program's class has the policy Retain.
        if (snapshot.get("status") or {}).get("readyToUse") or snapshot["metadata"].get("deletionTimestamp"):
            return
        with self._lock:
            if uid in self._busy:
                return
            self._busy.add(uid)
        self._agenda.soon(self._begin, snapshot["metadata"]["namespace"], snapshot["metadata"]["name"])

    def _begin(self, namespace: str, name: str) -> None:
        snapshot = self._world.snapshots.get(name, namespace)
        if snapshot is None:
            return
        if named := snapshot["spec"]["source"].get("volumeSnapshotContentName"):
            self._bind(snapshot, named)
            return
        uid, class_name = snapshot["metadata"]["uid"], snapshot["spec"]["volumeSnapshotClassName"]
        found, volume = self._world.api.get(VOLUME_SNAPSHOT_CLASS, class_name), self._volume(snapshot)
        if found is None or volume is None:
            claim = snapshot["spec"]["source"]["persistentVolumeClaimName"]
            missing = f"no VolumeSnapshotClass {class_name}" if found is None else f"claim {claim} is not bound"
            self._refuse(snapshot, missing)
            return
        if pods := self._writing(snapshot):
            # Google would take an image with an inconsistent file system.
            self._refuse(snapshot, f"rehearsal: {', '.join(pods)} still has the volume mounted; depend on its Job")
            return
        self._backoff.forget(uid)
        self._reports.clear(snapshot)
        self._announce(snapshot, found, volume)
        self._agenda.after(self._timings.image_create_seconds, self._done, snapshot, volume)

    def _bind(self, snapshot: Manifest, content_name: str) -> None:
        """Bind a snapshot to an existing image. Images from outside the rehearsal are assumed to exist, with unknown size."""
        metadata, api = snapshot["metadata"], self._world.api
        content = api.get(VOLUME_SNAPSHOT_CONTENT, content_name)
        if content is None:
            self._reports.trouble(snapshot, "SnapshotContentMissing", "VolumeSnapshotContent is missing")
            self._again(snapshot)
            return
        self._backoff.forget(metadata["uid"])
        self._reports.clear(snapshot)
        handle = content["spec"]["source"]["snapshotHandle"]
        same = (one for one in api.list_all(VOLUME_SNAPSHOT_CONTENT) if _image_of(one) == handle)
        taken = next((one for one in same if "restoreSize" in one["status"]), None)
        size = {} if taken is None else {"restoreSize": taken["status"]["restoreSize"]}
        status = {"snapshotHandle": handle, "readyToUse": True, **size}
        api.patch(VOLUME_SNAPSHOT_CONTENT, content_name, None, {"status": status}, subresource="status")
        ready = {
            "boundVolumeSnapshotContentName": content_name,
            "readyToUse": True,
            **({"restoreSize": str(size["restoreSize"])} if size else {}),
        }
        api.patch(VOLUME_SNAPSHOT, metadata["name"], metadata["namespace"], {"status": ready}, subresource="status")

    def _refuse(self, snapshot: Manifest, why: str) -> None:
        message = f"Failed to create snapshot content with error {why}"
        self._reports.trouble(snapshot, "SnapshotContentCreationFailed", message)
        self._again(snapshot)

    def _again(self, snapshot: Manifest) -> None:
        metadata = snapshot["metadata"]
        pause = self._backoff.pause_seconds(metadata["uid"])
        self._agenda.after(pause, self._begin, metadata["namespace"], metadata["name"])

    def _writing(self, snapshot: Manifest) -> list[str]:
        """Pods on a node that mount the claim and have not ended."""
        claim, namespace = snapshot["spec"]["source"]["persistentVolumeClaimName"], snapshot["metadata"]["namespace"]
        return sorted(
            pod["metadata"]["name"]
            for pod in self._world.pods.all()
            if pod["metadata"]["namespace"] == namespace
            and claim in _claims_of(pod)
            and pod["spec"].get("nodeName")
            and not has_ended(pod)
        )

    def _volume(self, snapshot: Manifest) -> Manifest | None:
        name = snapshot["spec"]["source"]["persistentVolumeClaimName"]
        claim = self._world.claims.get(name, snapshot["metadata"]["namespace"])
        bound = claim["spec"].get("volumeName") if claim else None
        return self._world.volumes.get(bound) if bound else None

    def _announce(self, snapshot: Manifest, snapshot_class: Manifest, volume: Manifest) -> None:
        metadata = snapshot["metadata"]
        content = f"snapcontent-{metadata['uid']}"
        try:
            self._world.api.create(
                {
                    "apiVersion": VOLUME_SNAPSHOT_CONTENT.api_version,
                    "kind": VOLUME_SNAPSHOT_CONTENT.kind,
                    "metadata": {"name": content},
                    "spec": {
                        "deletionPolicy": snapshot_class["deletionPolicy"],
                        "driver": DRIVER,
                        "source": {"volumeHandle": volume["spec"]["csi"]["volumeHandle"]},
                        "volumeSnapshotClassName": snapshot_class["metadata"]["name"],
                        "volumeSnapshotRef": {
                            "apiVersion": snapshot["apiVersion"],
                            "kind": snapshot["kind"],
                            "namespace": metadata["namespace"],
                            "name": metadata["name"],
                            "uid": metadata["uid"],
                        },
                    },
                }
            )
        except ApiRefusedError as refusal:
            if refusal.status != 409:
                raise
        status = {
            "boundVolumeSnapshotContentName": content,
            "readyToUse": False,
            "restoreSize": volume["spec"]["capacity"]["storage"],
        }
        self._world.api.patch(
            VOLUME_SNAPSHOT, metadata["name"], metadata["namespace"], {"status": status}, subresource="status"
        )

    def _done(self, snapshot: Manifest, volume: Manifest) -> None:
        metadata = snapshot["metadata"]
        current = self._world.snapshots.get(metadata["name"], metadata["namespace"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return
        content = {
            "snapshotHandle": f"projects/{SIMULATED_PROJECT}/global/images/snapshot-{metadata['uid']}",
            "readyToUse": True,
            "restoreSize": int(quantity(volume["spec"]["capacity"]["storage"])),
        }
        api = self._world.api
        api.patch(
            VOLUME_SNAPSHOT_CONTENT,
            f"snapcontent-{metadata['uid']}",
            None,
            {"status": content},
            subresource="status",
        )
        ready = {"readyToUse": True, "creationTime": timestamp()}
        api.patch(VOLUME_SNAPSHOT, metadata["name"], metadata["namespace"], {"status": ready}, subresource="status")


def _claims_of(pod: Manifest) -> list[str]:
    """The claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def _image_of(content: Manifest) -> str:
    handle: str = (content.get("status") or {}).get("snapshotHandle", "")
    return handle
