"""Volumes become images: the snapshot controller and the driver's half of it, played."""

from __future__ import annotations

import threading
from typing import Final

from rehearsal.api import VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT, ApiRefusedError, Kind, Manifest
from rehearsal.mirror import Change
from rehearsal.simulation import image_rules
from rehearsal.simulation.agenda import Agenda, Backoff
from rehearsal.simulation.attachments import ENDED, claims_of
from rehearsal.simulation.cloud_disks import CloudDisks, Image
from rehearsal.simulation.disk_reports import DiskReports, timestamp
from rehearsal.simulation.disk_rules import DiskTrouble
from rehearsal.simulation.provisioning import DRIVER
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import World

VOLUME_SNAPSHOT_CLASS: Final = Kind("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass")


class Snapshots:
    """Takes images of claims that nobody writes any more."""

    def __init__(
        self, world: World, cloud: CloudDisks, agenda: Agenda, reports: DiskReports, timings: Timings, project: str
    ) -> None:
        self._world, self._cloud, self._agenda, self._reports = world, cloud, agenda, reports
        self._timings, self._project = timings, project
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._backoff = Backoff()
        world.snapshots.listen(self._on_snapshot)

    def _on_snapshot(self, change: Change, snapshot: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        uid = snapshot["metadata"]["uid"]
        if change == "deleted":
            self._reports.clear(snapshot)
            self._backoff.forget(uid)
            self._agenda.soon(self._forget, snapshot)
            return
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
        uid, class_name = snapshot["metadata"]["uid"], snapshot["spec"].get("volumeSnapshotClassName", "")
        found = self._world.api.get(VOLUME_SNAPSHOT_CLASS, class_name) if class_name else None
        trouble = image_rules.no_class(class_name) if found is None else self._judge(snapshot, found)
        if found is None or trouble is not None:
            if trouble is not None:
                self._reports.trouble(snapshot, trouble)
            self._agenda.after(self._backoff.pause_seconds(uid), self._begin, namespace, name)
            return
        volume = self._volume(snapshot)
        disk = self._cloud.volume(volume["metadata"]["name"]) if volume else None
        if volume is None or disk is None or disk.attached:
            # The writer has ended and its node is about to let go: the driver waits without a word, and so do we.
            self._agenda.after(self._backoff.pause_seconds(uid), self._begin, namespace, name)
            return
        self._backoff.forget(uid)
        self._reports.clear(snapshot)
        if not disk.written_by:
            self._reports.note(name, "image of a disk that nobody has written: it holds no file system", mood="bad")
        parameters = found.get("parameters") or {}
        image = Image(
            name=f"snapshot-{uid}",
            kind=parameters.get("snapshot-type", "snapshots"),
            size_gib=disk.size_gib,
            location=parameters.get("storage-locations", disk.zones[0].rpartition("-")[0]),
            family=parameters.get("image-family", ""),
            claim=disk.claim,
            is_retained=found["deletionPolicy"] == "Retain",
            written_by=tuple(disk.written_by),
        )
        self._announce(snapshot, found, volume, image)
        began = self._world.clock.now_seconds()
        self._agenda.after(self._timings.image_create_seconds, self._done, snapshot, image, began)

    def _judge(self, snapshot: Manifest, snapshot_class: Manifest) -> DiskTrouble | None:
        wrong = image_rules.refuse_snapshot_class(
            snapshot_class["driver"], DRIVER, snapshot_class.get("parameters") or {}
        )
        if wrong is not None:
            return wrong
        claim = snapshot["spec"]["source"].get("persistentVolumeClaimName", "")
        if self._volume(snapshot) is None:
            return image_rules.not_bound(claim)
        namespace = snapshot["metadata"]["namespace"]
        pods = tuple(
            sorted(
                pod["metadata"]["name"]
                for pod in self._world.pods.all()
                if pod["metadata"]["namespace"] == namespace
                and claim in claims_of(pod)
                and pod["spec"].get("nodeName")
                and (pod.get("status") or {}).get("phase") not in ENDED
            )
        )
        return image_rules.mounted(claim, pods) if pods else None

    def _volume(self, snapshot: Manifest) -> Manifest | None:
        name = snapshot["spec"]["source"].get("persistentVolumeClaimName", "")
        claim = self._world.claims.get(name, snapshot["metadata"]["namespace"])
        bound = claim["spec"].get("volumeName") if claim else None
        return self._world.volumes.get(bound) if bound else None

    def _announce(self, snapshot: Manifest, snapshot_class: Manifest, volume: Manifest, image: Image) -> None:
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
        status = {"boundVolumeSnapshotContentName": content, "readyToUse": False, "restoreSize": f"{image.size_gib}Gi"}
        self._world.api.patch(
            VOLUME_SNAPSHOT, metadata["name"], metadata["namespace"], {"status": status}, subresource="status"
        )

    def _done(self, snapshot: Manifest, image: Image, began: float) -> None:
        metadata = snapshot["metadata"]
        current = self._world.snapshots.get(metadata["name"], metadata["namespace"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return
        self._cloud.take_image(image)
        kind = "images" if image.kind == "images" else "snapshots"
        content = {
            "snapshotHandle": f"projects/{self._project}/global/{kind}/{image.name}",
            "readyToUse": True,
            "restoreSize": image.size_gib * 2**30,
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
        self._reports.note(metadata["name"], f"{image.kind[:-1]} taken", mood="good", since_seconds=began)

    def _forget(self, snapshot: Manifest) -> None:
        """With deletionPolicy Delete the image goes too; with Retain image and content stay."""
        uid = snapshot["metadata"]["uid"]
        image = self._cloud.image(f"snapshot-{uid}")
        if image is not None and image.is_retained:
            self._reports.note(snapshot["metadata"]["name"], f"image stays: {image.name}")
            return
        self._cloud.delete_image(f"snapshot-{uid}")
        self._world.api.delete(VOLUME_SNAPSHOT_CONTENT, f"snapcontent-{uid}")
