"""The disks and images that Google would hold, and bill: made, attached, switched, imaged, deleted. No Kubernetes here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from planner.hyperdisk import throughput_floor_mibps
from rehearsal.simulation.attach_rules import AttachRequest, refuse_attachment
from rehearsal.simulation.disk_rules import HYPERDISK_ML, AccessMode, DiskTrouble, Source, VolumeRequest, refuse_volume

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudItem:
    """One thing that is billed: a disk in one zone, or an image."""

    kind: Literal["disk", "image"]
    name: str
    size_gib: int
    throughput_mibps: int
    """What a disk is provisioned with; 0 for an image."""
    location: str
    """Zone of a disk, region or multi-region of an image."""
    type: str
    """Disk type; of an image `images` or `snapshots`."""
    of: str
    """`namespace/claim` that it was made for or taken from."""
    family: str = ""
    """Of an image."""
    is_retained: bool = False
    """Whether it stays when its object in the cluster is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A node that has a disk."""

    node: str
    machine_type: str
    zone: str
    read_only: bool
    since_seconds: float


@dataclass(slots=True, kw_only=True)
class Volume:
    """One volume: a disk, or with multi-zone provisioning one in each zone under the same name."""

    name: str
    type: str
    size_gib: int
    throughput_mibps: int
    zones: tuple[str, ...]
    claim: str
    is_retained: bool
    access_mode: AccessMode
    access_modes: list[tuple[float, AccessMode]]
    """Each mode it has had, with the simulated moment it began."""
    source: str = ""
    attached: dict[str, Attachment] = field(default_factory=dict)
    written_by: list[str] = field(default_factory=list)
    """Nodes that had it attached for writing, in order."""
    most_readers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image or snapshot of a disk."""

    name: str
    kind: Literal["images", "snapshots"]
    size_gib: int
    location: str
    family: str
    claim: str
    is_retained: bool
    written_by: tuple[str, ...]


class CloudDisks:
    """Compute Engine's part. Safe to use from many threads: every rule is judged and acted on in one step."""

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now = now_seconds
        self._lock = threading.Lock()
        self._volumes: dict[str, Volume] = {}
        self._images: dict[str, Image] = {}
        self._restores: dict[str, list[float]] = {}

    def volume(self, name: str) -> Volume | None:
        """The volume of this name."""
        return self._volumes.get(name)

    def volumes(self) -> tuple[Volume, ...]:
        """Every volume."""
        with self._lock:
            return tuple(self._volumes.values())

    def image(self, name: str) -> Image | None:
        """The image of this name."""
        return self._images.get(name)

    def source(self, image_name: str) -> Source | None:
        """An image as the source of a new disk."""
        with self._lock:
            image = self._images.get(image_name)
            if image is None:
                return None
            recent = [at for at in self._restores.get(image_name, ()) if at > self._now() - HOUR_SECONDS]
        return Source(name=image.name, kind=image.kind, size_gib=image.size_gib, restores_in_last_hour=len(recent))

    def make(self, name: str, asked: VolumeRequest, *, claim: str, is_retained: bool) -> DiskTrouble | None:
        """Make the disks of a volume; what forbids it, if anything does. Made already, it stays as it is."""
        trouble = refuse_volume(asked)
        if trouble is not None:
            return trouble
        now = self._now()
        floor = ceil(throughput_floor_mibps(asked.size_gib)) if asked.type == HYPERDISK_ML else 0
        with self._lock:
            if name in self._volumes:
                return None
            self._volumes[name] = Volume(
                name=name,
                type=asked.type,
                size_gib=asked.size_gib,
                throughput_mibps=floor if asked.throughput_mibps is None else asked.throughput_mibps,
                zones=asked.zones,
                claim=claim,
                is_retained=is_retained,
                access_mode=asked.access_mode,
                access_modes=[(now, asked.access_mode)],
                source=asked.source.name if asked.source else "",
            )
            if asked.source is not None:
                self._restores.setdefault(asked.source.name, []).extend([now] * len(asked.zones))
        return None

    def attach(self, name: str, *, node: str, machine_type: str, node_zone: str, read_only: bool) -> DiskTrouble | None:
        """Attach a volume to a node; what forbids it, if anything does.

        Attached read-only, a writable Hyperdisk ML volume becomes a read-only one for good.
        """
        with self._lock:
            volume = self._volumes.get(name)
            if volume is None:
                return _gone(name)
            if node in volume.attached:
                return None
            writers = [one.node for one in volume.attached.values() if not one.read_only]
            switches = read_only and volume.type == HYPERDISK_ML and volume.access_mode == "READ_WRITE_SINGLE"
            asked = AttachRequest(
                disk=name,
                type=volume.type,
                size_gib=volume.size_gib,
                throughput_mibps=volume.throughput_mibps,
                zone=node_zone if node_zone in volume.zones else ", ".join(volume.zones),
                access_mode=volume.access_mode,
                node=node,
                machine_type=machine_type,
                node_zone=node_zone,
                read_only=read_only,
                # The limits hold for each disk, that is for each zone.
                readers=sum(one.read_only and one.zone == node_zone for one in volume.attached.values()),
                writer=writers[0] if writers else "",
            )
            trouble = refuse_attachment(asked)
            if trouble is not None:
                return trouble
            now = self._now()
            if switches:
                volume.access_mode = "READ_ONLY_MANY"
                volume.access_modes.append((now, "READ_ONLY_MANY"))
            volume.attached[node] = Attachment(
                node=node, machine_type=machine_type, zone=node_zone, read_only=read_only, since_seconds=now
            )
            if read_only:
                volume.most_readers = max(volume.most_readers, asked.readers + 1)
            else:
                volume.written_by.append(node)
        return None

    def detach(self, name: str, node: str) -> bool:
        """Detach a volume from a node. False when it was not attached."""
        with self._lock:
            volume = self._volumes.get(name)
            return volume is not None and volume.attached.pop(node, None) is not None

    def delete(self, name: str) -> bool:
        """Delete a volume. False while a node has it."""
        with self._lock:
            volume = self._volumes.get(name)
            if volume is not None and volume.attached:
                return False
            self._volumes.pop(name, None)
        return True

    def take_image(self, image: Image) -> None:
        """Keep an image."""
        with self._lock:
            self._images[image.name] = image

    def delete_image(self, name: str) -> None:
        """Delete an image."""
        with self._lock:
            self._images.pop(name, None)

    def inventory(self) -> tuple[CloudItem, ...]:
        """Everything that Google holds and bills now, disks first, by name and zone."""
        with self._lock:
            disks = [
                CloudItem(
                    kind="disk",
                    name=volume.name,
                    size_gib=volume.size_gib,
                    throughput_mibps=volume.throughput_mibps,
                    location=zone,
                    type=volume.type,
                    of=volume.claim,
                    is_retained=volume.is_retained,
                )
                for volume in self._volumes.values()
                for zone in volume.zones
            ]
            images = [
                CloudItem(
                    kind="image",
                    name=image.name,
                    size_gib=image.size_gib,
                    throughput_mibps=0,
                    location=image.location,
                    type=image.kind,
                    of=image.claim,
                    family=image.family,
                    is_retained=image.is_retained,
                )
                for image in self._images.values()
            ]
        return tuple(sorted([*disks, *images], key=lambda one: (one.kind, one.name, one.location)))


def _gone(name: str) -> DiskTrouble:
    return DiskTrouble(
        code="no-disk",
        event="FailedAttachVolume",
        shown=f"rpc error: code = NotFound desc = ControllerPublishVolume could not find volume with ID {name}",
        message=f"Google has no disk {name}: it was deleted, or the PersistentVolume names one that never was.",
        fix="Delete the claim and let it be made anew.",
    )
