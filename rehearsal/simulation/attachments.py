"""Volumes reach nodes: what the attach-detach controller, the external-attacher and the driver do together, played.

Kubernetes' own attach-detach controller would take part: it looks after nodes with the annotation
`volumes.kubernetes.io/controller-managed-attach-detach`, and needs neither CSINode nor CSIDriver. It is left out, so
simulated nodes come without that annotation and there are no VolumeAttachment objects. Measured with 1000 pods on one volume:
28 CPU seconds to attach and 21 to detach, against 10 and none here; and its pauses are wall time, on a clock that runs 60
times faster.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from rehearsal.api import POD, Manifest
from rehearsal.mirror import Change
from rehearsal.simulation.agenda import Agenda, Backoff
from rehearsal.simulation.cloud_disks import CloudDisks
from rehearsal.simulation.disk_reports import DiskReports
from rehearsal.simulation.disk_rules import DiskTrouble
from rehearsal.simulation.provisioning import DRIVER, zone_of
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import VOLUMES_ATTACHED, World

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ENDED: Final = ("Succeeded", "Failed")
_MARK: Final = {"metadata": {"annotations": {VOLUMES_ATTACHED: "attached"}}}

UseKey = tuple[str, str]
"""Node and volume."""
PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Use:
    """A volume on a node, for the pods there that mount it."""

    pods: set[PodKey] = field(default_factory=set)
    is_attached: bool = False
    is_tried: bool = False
    """Whether an attempt to attach is under way, or a next one is on the agenda."""
    is_leaving: bool = False
    """Whether the last pod has ended and the disk is being detached."""


class Attachments:
    """Attaches for the first pod of a node, detaches after the last, and tells pods when all they need is there."""

    def __init__(self, world: World, cloud: CloudDisks, agenda: Agenda, reports: DiskReports, timings: Timings) -> None:
        self._world, self._cloud, self._agenda, self._reports = world, cloud, agenda, reports
        self._timings = timings
        self._lock = threading.Lock()
        self._backoff = Backoff()
        self._uses: dict[UseKey, _Use] = {}
        self._placed: set[str] = set()
        """Uids of pods with claims that have a node and have not ended."""
        world.pods.listen(self._on_pod)
        world.nodes.listen(self._on_node)

    # Pods come and go

    def _on_pod(self, change: Change, pod: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        if not pod["spec"].get("nodeName") or not claims_of(pod):
            return
        uid = pod["metadata"]["uid"]
        has_ended = change == "deleted" or (pod.get("status") or {}).get("phase") in ENDED
        with self._lock:
            if has_ended == (uid not in self._placed):
                return  # seen already
            (self._placed.discard if has_ended else self._placed.add)(uid)
        if has_ended:
            self._reports.clear(pod)
            self._backoff.forget(uid)
            self._leave(pod)
        else:
            self._agenda.soon(self._place, *_pod_key(pod))

    def _place(self, namespace: str, name: str) -> None:
        pod = self._world.pods.get(name, namespace)
        if pod is None or pod["metadata"]["uid"] not in self._placed:
            return
        volumes = [self._volume(namespace, claim) for claim in claims_of(pod)]
        for volume in volumes:
            if volume is None:  # bound, or there would be no node; the mirror has yet to hear of it
                pause = self._backoff.pause_seconds(pod["metadata"]["uid"])
                self._agenda.after(pause, self._place, namespace, name)
                return
        for volume in volumes:
            if volume is not None and _is_ours(volume):
                self._join((pod["spec"]["nodeName"], volume["metadata"]["name"]), pod)
        self._mark(namespace, name)

    def _join(self, key: UseKey, pod: Manifest) -> None:
        with self._lock:
            use = self._uses.setdefault(key, _Use())
            use.pods.add(_pod_key(pod))
            use.is_leaving = False
            is_first = not (use.is_attached or use.is_tried)
            use.is_tried = use.is_tried or is_first
        if is_first:
            self._agenda.soon(self._attach, key)

    def _leave(self, pod: Manifest) -> None:
        node, pod_key = pod["spec"]["nodeName"], _pod_key(pod)
        with self._lock:
            left = [
                (key, use)
                for key in ((node, self._volume_name(pod_key[0], claim)) for claim in claims_of(pod))
                if (use := self._uses.get(key)) is not None
            ]
            for key, use in left:
                use.pods.discard(pod_key)
                if not use.pods:
                    use.is_leaving = True
                    self._agenda.after(self._timings.disk_detach_seconds, self._detach, key)

    def _on_node(self, change: Change, node: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        if change != "deleted":
            return
        name = node["metadata"]["name"]
        with self._lock:
            gone = [key for key in self._uses if key[0] == name]
            for key in gone:
                del self._uses[key]
        for key in gone:  # a machine that is deleted lets go of its disks at once
            self._let_go(key)

    # Attaching and detaching

    def _attach(self, key: UseKey) -> None:
        node_name, volume_name = key
        node, volume = self._world.nodes.get(node_name), self._world.volumes.get(volume_name)
        with self._lock:
            use = self._uses.get(key)
            if use is None:
                return
            use.is_tried = bool(use.pods)
            pods = tuple(use.pods)
        if not pods:
            return  # all have left; detaching takes the use away
        if node is None or volume is None or self._is_about_to_be_free(key):
            self._agenda.after(self._backoff.pause_seconds(key), self._attach, key)
            return
        mounting = [pod for namespace, name in pods if (pod := self._world.pods.get(name, namespace)) is not None]
        trouble = self._cloud.attach(
            _disk_name(volume),
            node=node_name,
            machine_type=(node["metadata"].get("labels") or {}).get(INSTANCE_TYPE, "(unknown)"),
            node_zone=zone_of(node),
            read_only=_attaches_read_only(volume, mounting),
        )
        if trouble is not None:
            self._refuse(volume, trouble, mounting)
            self._agenda.after(self._backoff.pause_seconds(key), self._attach, key)
            return
        self._backoff.forget(key)
        with self._lock:
            is_wanted = self._uses.get(key) is use
        if not is_wanted:  # the last pod left, or the node went, in between
            self._let_go(key)
            return
        began = self._world.clock.now_seconds()
        self._agenda.after(self._timings.disk_attach_seconds, self._attached, key, began)

    def _attached(self, key: UseKey, began: float) -> None:
        with self._lock:
            use = self._uses.get(key)
            if use is None:
                return
            use.is_attached = True
            pods = tuple(use.pods)
        self._reports.note(self._claim_name(key[1]), f"attached to {key[0]}", mood="good", since_seconds=began)
        for namespace, name in pods:
            self._agenda.soon(self._mark, namespace, name)

    def _mark(self, namespace: str, name: str) -> None:
        pod = self._world.pods.get(name, namespace)
        if pod is None or (pod["metadata"].get("annotations") or {}).get(VOLUMES_ATTACHED) == "attached":
            return
        node = pod["spec"]["nodeName"]
        for claim in claims_of(pod):
            volume = self._volume(namespace, claim)
            if volume is None:
                return
            if _is_ours(volume):
                with self._lock:
                    use = self._uses.get((node, volume["metadata"]["name"]))
                if use is None or not use.is_attached:
                    return
        self._reports.clear(pod)
        self._world.api.patch(POD, name, namespace, _MARK)

    def _refuse(self, volume: Manifest, trouble: DiskTrouble, pods: list[Manifest]) -> None:
        prefix = f'AttachVolume.Attach failed for volume "{volume["metadata"]["name"]}" : '
        for pod in pods:
            self._reports.trouble(pod, trouble, prefix=prefix)

    def _is_about_to_be_free(self, key: UseKey) -> bool:
        """Whether the volume is only still on a node whose last pod has ended; then nobody says a word."""
        with self._lock:
            others = [use for other, use in self._uses.items() if other[1] == key[1] and other != key]
        volume = self._cloud.volume(key[1])
        is_single = volume is not None and volume.access_mode == "READ_WRITE_SINGLE"
        return is_single and any(use.is_leaving for use in others)

    def _detach(self, key: UseKey) -> None:
        with self._lock:
            use = self._uses.get(key)
            if use is None or use.pods:
                return
            del self._uses[key]
        self._let_go(key)

    def _let_go(self, key: UseKey) -> None:
        self._backoff.forget(key)
        node, volume_name = key
        volume = self._world.volumes.get(volume_name)
        if self._cloud.detach(volume_name if volume is None else _disk_name(volume), node):
            self._reports.note(self._claim_name(volume_name), f"detached from {node}")

    # Who is who

    def _volume_name(self, namespace: str, claim_name: str) -> str:
        claim = self._world.claims.get(claim_name, namespace)
        name: str = (claim["spec"].get("volumeName") or "") if claim else ""
        return name

    def _volume(self, namespace: str, claim_name: str) -> Manifest | None:
        return self._world.volumes.get(self._volume_name(namespace, claim_name))

    def _claim_name(self, volume_name: str) -> str:
        volume = self._world.volumes.get(volume_name)
        claim = (volume["spec"].get("claimRef") or {}) if volume else {}
        name: str = claim.get("name", volume_name)
        return name


def claims_of(pod: Manifest) -> dict[str, bool]:
    """The claims that a pod mounts, and whether it says that it only reads."""
    return {
        volume["persistentVolumeClaim"]["claimName"]: bool(volume["persistentVolumeClaim"].get("readOnly"))
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }


def _pod_key(pod: Manifest) -> PodKey:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _is_ours(volume: Manifest) -> bool:
    """Whether the driver played here looks after it; others' volumes hold no pod back."""
    return bool((volume["spec"].get("csi") or {}).get("driver") == DRIVER)


def _disk_name(volume: Manifest) -> str:
    handle: str = (volume["spec"].get("csi") or {}).get("volumeHandle", "")
    return handle.rpartition("/")[2]


def _attaches_read_only(volume: Manifest, pods: list[Manifest]) -> bool:
    """Whether the driver would attach it read-only: the volume says so, or every pod that mounts it does.

    The driver's own code looks at the volume alone. The second is the worse case, which workloads/weights.py guards against: a
    writer's claim that is mounted read-only once can never be written again.
    """
    if (volume["spec"].get("csi") or {}).get("readOnly"):
        return True
    claim = (volume["spec"].get("claimRef") or {}).get("name", "")
    return bool(pods) and all(claims_of(pod).get(claim, False) for pod in pods)
