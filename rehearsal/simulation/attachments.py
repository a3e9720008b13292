"""Volumes reach nodes: the external-attacher played, on the VolumeAttachments of Kubernetes' own attach-detach controller.

That controller looks only after nodes that carry an annotation of the kubelet's; simulated nodes get it here where they
come without. What it writes are the VolumeAttachments, the events on pods (FailedAttachVolume, Multi-Attach) and
status.volumesAttached of nodes; it runs on wall time. It needs no CSINode and no CSIDriver, and neither does the scheduler.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from rehearsal.api import NODE, POD, VOLUME_ATTACHMENT, Manifest
from rehearsal.mirror import Change
from rehearsal.simulation.agenda import Agenda, Backoff
from rehearsal.simulation.cloud_disks import CloudDisks
from rehearsal.simulation.disk_reports import DiskReports, timestamp
from rehearsal.simulation.disk_rules import DiskTrouble
from rehearsal.simulation.provisioning import DRIVER, zone_of
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import SIMULATED_NODE, VOLUMES_ATTACHED, World

CONTROLLER_ATTACHES: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Source: kubernetes, pkg/volume/util: every kubelet sets it on its node."""
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ENDED: Final = ("Succeeded", "Failed")
_MARK: Final = {"metadata": {"annotations": {VOLUMES_ATTACHED: "attached"}}}

Key = tuple[str, str]


class Attachments:
    """Attaches and detaches, and tells pods when all they need is there."""

    def __init__(self, world: World, cloud: CloudDisks, agenda: Agenda, reports: DiskReports, timings: Timings) -> None:
        self._world, self._cloud, self._agenda, self._reports = world, cloud, agenda, reports
        self._timings = timings
        self._lock = threading.Lock()
        self._backoff = Backoff()
        self._busy: set[str] = set()
        self._attached: set[Key] = set()
        """(node, volume) with status.attached."""
        self._free_at: dict[str, float] = {}
        """By volume: the simulated moment when its last detaching is done."""
        self._waiting: dict[str, set[Key]] = {}
        """Pods with claims that are not marked yet, by node."""
        world.attachments.listen(self._on_attachment)
        world.pods.listen(self._on_pod)
        world.nodes.listen(self._on_node)

    # Nodes

    def _on_node(self, change: Change, node: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        annotations = node["metadata"].get("annotations") or {}
        if change == "added" and SIMULATED_NODE in annotations and CONTROLLER_ATTACHES not in annotations:
            body = {"metadata": {"annotations": {CONTROLLER_ATTACHES: "true"}}}
            self._agenda.soon(self._patch, NODE, node["metadata"]["name"], None, body)

    # Attachments

    def _on_attachment(self, change: Change, attachment: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        spec = attachment["spec"]
        if spec["attacher"] != DRIVER:
            return
        name, use = attachment["metadata"]["name"], _use(attachment)
        if change == "deleted":
            with self._lock:
                self._attached.discard(use)
                self._busy.discard(name)
            self._backoff.forget(name)
            self._reports.clear(attachment)
            self._detach(use)
        elif (attachment.get("status") or {}).get("attached"):
            with self._lock:
                self._attached.add(use)
                pods = tuple(self._waiting.get(use[0], ()))
            for namespace, pod in pods:
                self._agenda.soon(self._mark, namespace, pod)
        else:
            with self._lock:
                if name in self._busy:
                    return
                self._busy.add(name)
            self._agenda.soon(self._attach, name)

    def _attach(self, name: str) -> None:
        attachment = self._world.attachments.get(name)
        if attachment is None or attachment["metadata"].get("deletionTimestamp"):
            return
        node_name, volume_name = _use(attachment)
        free_in = self._free_at.get(volume_name, 0.0) - self._world.clock.now_seconds()
        node = self._world.nodes.get(node_name)
        volume = self._world.volumes.get(volume_name)
        if node is None or volume is None:
            self._agenda.after(self._backoff.pause_seconds(name), self._attach, name)
            return
        if free_in > 0 and not self._is_shared(volume_name):
            self._agenda.after(free_in, self._attach, name)
            return
        pods = self._pods_with(node_name, volume)
        if not pods and not _is_read_only(volume):
            # The pod that it is for is not in the mirror yet, and how it mounts matters.
            self._agenda.after(self._backoff.pause_seconds(name), self._attach, name)
            return
        trouble = self._cloud.attach(
            _disk_name(volume),
            node=node_name,
            machine_type=(node["metadata"].get("labels") or {}).get(INSTANCE_TYPE, "(unknown)"),
            node_zone=zone_of(node),
            read_only=_attaches_read_only(volume, pods),
        )
        if trouble is not None:
            self._refuse(attachment, trouble, pods)
            return
        self._backoff.forget(name)
        began = self._world.clock.now_seconds()
        self._agenda.after(self._timings.disk_attach_seconds, self._now_attached, name, began)

    def _now_attached(self, name: str, began: float) -> None:
        attachment = self._world.attachments.get(name)
        if attachment is None:
            return
        status: dict[str, Any] = {"attached": True}
        if (attachment.get("status") or {}).get("attachError"):
            status["attachError"] = None
        self._patch(VOLUME_ATTACHMENT, name, None, {"status": status}, "status")
        node, volume_name = _use(attachment)
        volume = self._world.volumes.get(volume_name)
        claim = volume["spec"]["claimRef"]["name"] if volume and volume["spec"].get("claimRef") else volume_name
        self._reports.note(claim, f"attached to {node}", mood="good", since_seconds=began)
        self._reports.clear(attachment)
        if volume is not None:
            for pod in self._pods_with(node, volume):
                self._reports.clear(pod)

    def _refuse(self, attachment: Manifest, trouble: DiskTrouble, pods: list[Manifest]) -> None:
        name = attachment["metadata"]["name"]
        error = {"message": trouble.shown, "time": timestamp()}
        if ((attachment.get("status") or {}).get("attachError") or {}).get("message") != trouble.shown:
            # The attach-detach controller turns it into the event on the pod.
            self._patch(VOLUME_ATTACHMENT, name, None, {"status": {"attached": False, "attachError": error}}, "status")
        self._reports.trouble(attachment, trouble, event=False)
        for pod in pods:
            self._reports.trouble(pod, trouble, event=False)
        self._agenda.after(self._backoff.pause_seconds(name), self._attach, name)

    def _detach(self, use: Key) -> None:
        node, volume_name = use
        volume = self._world.volumes.get(volume_name)
        disk = volume_name if volume is None else _disk_name(volume)
        if self._cloud.detach(disk, node):
            self._free_at[volume_name] = self._world.clock.now_seconds() + self._timings.disk_detach_seconds
            claim = volume["spec"]["claimRef"]["name"] if volume and volume["spec"].get("claimRef") else volume_name
            self._reports.note(claim, f"detached from {node}")

    def _is_shared(self, volume_name: str) -> bool:
        """Whether others read it anyway, so that nobody waits for one who leaves."""
        volume = self._cloud.volume(volume_name)
        return volume is not None and volume.access_mode == "READ_ONLY_MANY"

    # Pods

    def _on_pod(self, change: Change, pod: Manifest, before: Manifest | None) -> None:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node or not claims_of(pod):
            return
        key = (metadata["namespace"], metadata["name"])
        is_marked = (metadata.get("annotations") or {}).get(VOLUMES_ATTACHED) == "attached"
        if change == "deleted" or is_marked or (pod.get("status") or {}).get("phase") in ENDED:
            with self._lock:
                self._waiting.get(node, set()).discard(key)
            if change == "deleted":
                self._reports.clear(pod)
            return
        if before is not None and before["spec"].get("nodeName"):
            return  # known already
        with self._lock:
            self._waiting.setdefault(node, set()).add(key)
        self._agenda.soon(self._mark, *key)

    def _mark(self, namespace: str, name: str) -> None:
        pod = self._world.pods.get(name, namespace)
        if pod is None:
            return
        node = pod["spec"]["nodeName"]
        with self._lock:
            if (namespace, name) not in self._waiting.get(node, ()):
                return
        if not all(self._is_there(node, namespace, claim) for claim in claims_of(pod)):
            return
        with self._lock:
            self._waiting[node].discard((namespace, name))
        self._patch(POD, name, namespace, _MARK)

    def _is_there(self, node: str, namespace: str, claim_name: str) -> bool:
        claim = self._world.claims.get(claim_name, namespace)
        volume_name = claim["spec"].get("volumeName") if claim else None
        volume = self._world.volumes.get(volume_name) if volume_name else None
        if volume is None:
            return False
        if (volume["spec"].get("csi") or {}).get("driver") != DRIVER:
            return True  # somebody else's, which the rehearsal does not hold back
        with self._lock:
            return (node, volume_name) in self._attached

    def _pods_with(self, node: str, volume: Manifest) -> list[Manifest]:
        """Pods on this node that mount this volume and have not ended."""
        claim = volume["spec"].get("claimRef") or {}
        with self._lock:
            keys = tuple(self._waiting.get(node, ()))
        pods = [self._world.pods.get(name, namespace) for namespace, name in keys]
        return [
            pod
            for pod in pods
            if pod is not None
            and pod["metadata"]["namespace"] == claim.get("namespace")
            and claim.get("name") in claims_of(pod)
        ]

    def _patch(self, kind: Any, name: str, namespace: str | None, body: Any, subresource: str = "") -> None:
        self._world.api.patch(kind, name, namespace, body, subresource=subresource)


def claims_of(pod: Manifest) -> dict[str, bool]:
    """The claims that a pod mounts, and whether it says that it only reads."""
    return {
        volume["persistentVolumeClaim"]["claimName"]: bool(volume["persistentVolumeClaim"].get("readOnly"))
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }


def _use(attachment: Manifest) -> Key:
    spec = attachment["spec"]
    return spec["nodeName"], spec["source"].get("persistentVolumeName", "")


def _disk_name(volume: Manifest) -> str:
    handle: str = (volume["spec"].get("csi") or {}).get("volumeHandle", "")
    return handle.rpartition("/")[2]


def _is_read_only(volume: Manifest) -> bool:
    return bool((volume["spec"].get("csi") or {}).get("readOnly"))


def _attaches_read_only(volume: Manifest, pods: list[Manifest]) -> bool:
    """Whether the driver would attach it read-only: the volume says so, or every pod that mounts it does.

    The driver's own code looks at the volume alone. The second is the worse case, which the program's facts warn of: a
    writer's claim that is mounted read-only once can never be written again.
    """
    if _is_read_only(volume):
        return True
    claim = (volume["spec"].get("claimRef") or {}).get("name", "")
    return bool(pods) and all(claims_of(pod).get(claim, False) for pod in pods)
