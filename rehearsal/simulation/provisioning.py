"""Claims become volumes: the external-provisioner and Google's PD CSI driver, played."""

from __future__ import annotations

import threading
from math import ceil
from typing import Final

from rehearsal.api import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, ApiRefusedError, Manifest
from rehearsal.mirror import Change
from rehearsal.simulation.agenda import Agenda, Backoff
from rehearsal.simulation.cloud_disks import CloudDisks
from rehearsal.simulation.disk_reports import DiskReports
from rehearsal.simulation.disk_rules import DiskTrouble, Source, VolumeRequest
from rehearsal.simulation.pod_needs import quantity
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import World

DRIVER: Final = "pd.csi.storage.gke.io"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Annotation with which kube-controller-manager hands a claim to a driver: at once, or once its first pod has a node."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
ZONE: Final = "topology.gke.io/zone"
MULTI_ZONE: Final = "multi-zone"
"""In a volume handle, instead of a zone. Source: the driver, pkg/constants."""
DELETE_SECONDS: Final = 10.0
"""Until a disk that nobody has attached is deleted. Assumed."""


class Provisioning:
    """Makes disks for claims and deletes them with their volumes."""

    def __init__(
        self, world: World, cloud: CloudDisks, agenda: Agenda, reports: DiskReports, timings: Timings, project: str
    ) -> None:
        self._world, self._cloud, self._agenda, self._reports = world, cloud, agenda, reports
        self._timings, self._project = timings, project
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
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and self._node(claim) is None:
            # The node went before its volume was made: the scheduler chooses another.
            self._world.api.patch(
                PERSISTENT_VOLUME_CLAIM, name, namespace, {"metadata": {"annotations": {SELECTED_NODE: None}}}
            )
            self._give_up(claim)
            return
        asked, source_trouble = self._request(claim, storage_class)
        trouble = source_trouble or self._cloud.make(
            _volume_name(claim),
            asked,
            claim=f"{namespace}/{name}",
            is_retained=storage_class.get("reclaimPolicy", "Delete") == "Retain",
        )
        if trouble is not None:
            prefix = f'failed to provision volume with StorageClass "{spec["storageClassName"]}": '
            self._reports.trouble(claim, trouble, prefix=prefix)
            self._again(claim)
            return
        self._backoff.forget(uid)
        self._reports.clear(claim)
        began = self._world.clock.now_seconds()
        takes = self._timings.disk_create_seconds if asked.source is None else self._timings.disk_restore_seconds
        self._agenda.after(takes, self._made, claim, storage_class, asked, began)

    def _made(self, claim: Manifest, storage_class: Manifest, asked: VolumeRequest, began: float) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        current = self._world.claims.get(name, namespace)
        if current is None or current["metadata"]["uid"] != claim["metadata"]["uid"]:
            self._cloud.delete(_volume_name(claim))
        else:
            volume = _volume_manifest(claim, storage_class, asked, self._project)
            try:
                self._world.api.create(volume)
            except ApiRefusedError as refusal:
                if refusal.status != 409:
                    raise
            what = "empty" if asked.source is None else f"from {asked.source.name}"
            text = f"{asked.size_gib} GiB {asked.type} made, {what}"
            self._reports.note(name, text, mood="good", since_seconds=began)

    def _request(self, claim: Manifest, storage_class: Manifest) -> tuple[VolumeRequest, DiskTrouble | None]:
        spec = claim["spec"]
        parameters = {key.lower(): str(value) for key, value in (storage_class.get("parameters") or {}).items()}
        throughput = parameters.get("provisioned-throughput-on-create")
        source, trouble = self._source(claim)
        asked = VolumeRequest(
            size_gib=size_gib(spec["resources"]["requests"]["storage"]),
            access_modes=tuple(spec["accessModes"]),
            zones=self._zones(claim, storage_class, parameters.get("enable-multi-zone-provisioning") == "true"),
            parameters=parameters,
            throughput_mibps=None if throughput is None else int(quantity(throughput) / 2**20),
            source=source,
        )
        return asked, trouble

    def _zones(self, claim: Manifest, storage_class: Manifest, multi_zone: bool) -> tuple[str, ...]:
        """Zones of the new disks: of the first consumer's node, or of the class, or of the nodes there are."""
        node = self._node(claim)
        if node is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
            return (zone_of(node),)
        allowed = {
            zone
            for term in storage_class.get("allowedTopologies") or ()
            for expression in term.get("matchLabelExpressions") or ()
            if expression["key"] == ZONE
            for zone in expression["values"]
        }
        zones = sorted(allowed or {zone_of(node) for node in self._world.nodes.all()} - {""})
        # The driver picks one by the claim's name; which one is nobody's business, so here it is the first.
        return tuple(zones if multi_zone else zones[:1])

    def _node(self, claim: Manifest) -> Manifest | None:
        name = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        return self._world.nodes.get(name)

    def _source(self, claim: Manifest) -> tuple[Source | None, DiskTrouble | None]:
        named = claim["spec"].get("dataSource") or claim["spec"].get("dataSourceRef")
        if not named:
            return None, None
        if named["kind"] != "VolumeSnapshot":
            return None, _bad_source(
                f"rehearsal: a {named['kind']} as dataSource is not simulated",
                f"The claim is to be filled from a {named['kind']}, which the rehearsal does not play.",
                "Use a VolumeSnapshot.",
            )
        snapshot = self._world.snapshots.get(named["name"], claim["metadata"]["namespace"])
        if snapshot is None:
            return None, _bad_source(
                f'error getting snapshot {named["name"]} from api server: volumesnapshots "{named["name"]}" not found',
                f"There is no VolumeSnapshot {named['name']}.",
                "Take the image first (depends_on).",
            )
        status = snapshot.get("status") or {}
        source = self._cloud.source(f"snapshot-{snapshot['metadata']['uid']}")
        if not status.get("readyToUse") or source is None:
            return None, _bad_source(
                f"snapshot {named['name']} is not Ready",
                f"The image {named['name']} is still being taken.",
                "Nothing: the volume is made when the image is ready. To have Pulumi wait in order, give the snapshot "
                "pulumi.com/waitFor on readyToUse.",
            )
        return source, None

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
        if not self._cloud.delete(name):
            # As the real one: DeleteVolume is refused while a node has the disk, and tried again.
            self._agenda.after(self._backoff.pause_seconds(name), self._delete, volume)
            return
        self._backoff.forget(name)
        self._world.api.delete(PERSISTENT_VOLUME, name)
        self._reports.note(volume["spec"]["claimRef"]["name"], "disk deleted")

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
    """A claim's size as the disk's: whole GiB, rounded up."""
    return ceil(quantity(storage) / 2**30)


def zone_of(node: Manifest) -> str:
    """The node's zone; empty when it has none."""
    labels = node["metadata"].get("labels") or {}
    zone: str = labels.get(ZONE) or labels.get("topology.kubernetes.io/zone") or ""
    return zone


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


def _volume_manifest(claim: Manifest, storage_class: Manifest, asked: VolumeRequest, project: str) -> Manifest:
    metadata, spec = claim["metadata"], claim["spec"]
    name = _volume_name(claim)
    zone = MULTI_ZONE if asked.multi_zone else asked.zones[0]
    csi: Manifest = {"driver": DRIVER, "volumeHandle": f"projects/{project}/zones/{zone}/disks/{name}"}
    if spec.get("volumeMode", "Filesystem") == "Filesystem":
        csi["fsType"] = "ext4"
    if asked.is_read_only:
        # external-provisioner --controller-publish-readonly, which GKE's driver runs with.
        csi["readOnly"] = True
    where = [{"key": ZONE, "operator": "In", "values": list(asked.zones)}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "accessModes": list(asked.access_modes),
            "capacity": {"storage": f"{asked.size_gib}Gi"},
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


def _bad_source(shown: str, message: str, fix: str) -> DiskTrouble:
    return DiskTrouble(code="source", event="ProvisioningFailed", shown=shown, message=message, fix=fix)
