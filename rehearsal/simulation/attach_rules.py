"""The rules of attaching a disk: which machines, which zone, one way from writing to reading, how many readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planner.hyperdisk import MBPS_PER_READER, attaches_hyperdisk_ml, max_readers, throughput_for_readers_mibps
from rehearsal.simulation.disk_rules import HYPERDISK_ML, SIMULATED, AccessMode, DiskTrouble
from rehearsal.simulation.machines import PERSISTENT_DISK_FAMILIES

NO_HYPERDISK_FAMILIES: Final = frozenset({"e2", "n1", "n2", "n2d", "t2a", "t2d", "c2", "c2d"})
"""Families that take no hyperdisk-balanced. Source: Compute Engine docs, Hyperdisk, machine type support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRequest:
    """A disk, a node, and who else has the disk."""

    disk: str
    type: str
    size_gib: int
    throughput_mibps: int
    zone: str
    access_mode: AccessMode
    node: str
    machine_type: str
    node_zone: str
    read_only: bool
    readers: int
    """Other nodes that have it attached read-only."""
    writer: str = ""
    """Another node that has it attached for writing."""


AttachRule = Callable[[AttachRequest], DiskTrouble | None]


def refuse_attachment(asked: AttachRequest) -> DiskTrouble | None:
    """The first rule that this attachment breaks; None when the disk can be attached."""
    return next((trouble for rule in ATTACH_RULES if (trouble := rule(asked)) is not None), None)


def _cannot_attach(code: str, text: str, message: str, fix: str, *, grpc: str = "InvalidArgument") -> DiskTrouble:
    shown = f"rpc error: code = {grpc} desc = {text}"
    return DiskTrouble(code=code, event="FailedAttachVolume", shown=shown, message=message, fix=fix)


def _machine_takes_it(asked: AttachRequest) -> DiskTrouble | None:
    if attaches(asked.type, asked.machine_type):
        return None
    others = "C4A, C3, A3, A4, G2" if asked.type == HYPERDISK_ML else "another"
    return _cannot_attach(
        "machine-type",
        "Failed to Attach: failed cloud service attach disk call: googleapi: Error 400: "
        f"{asked.type} disk type cannot be used by {asked.machine_type} machine type., badRequest",
        f"{asked.node} is a {asked.machine_type}, and that family cannot attach {asked.type}.",
        f"Send the pod to {others} machine family (node selector), or use a disk type that this one takes.",
    )


def _same_zone(asked: AttachRequest) -> DiskTrouble | None:
    if asked.zone == asked.node_zone:
        return None
    return _cannot_attach(
        "zone",
        f"Could not find disk Key{{{asked.disk!r}, zone: {asked.node_zone!r}}}: googleapi: Error 404: notFound",
        f"The disk is in {asked.zone}, the node in {asked.node_zone}; the disk exists in its own zone only.",
        "Put the servers' zone into allowedTopologies of the volume's class.",
        grpc="NotFound",
    )


def _one_way(asked: AttachRequest) -> DiskTrouble | None:
    if asked.access_mode == "READ_ONLY_MANY" and not asked.read_only:
        return _cannot_attach(
            "read-only-for-good",
            f"{SIMULATED} Failed to Attach: disk {asked.disk} has access mode READ_ONLY_MANY and cannot be attached for "
            "writing",
            "The disk was switched to READ_ONLY_MANY, and there is no way back.",
            "Write a new volume (a new claim) and leave this one to its readers.",
        )
    if asked.access_mode == "READ_WRITE_SINGLE" and asked.writer:
        return _cannot_attach(
            "one-writer",
            "Failed to Attach: failed cloud service attach disk call: googleapi: Error 400: "
            f"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE - The disk resource '{asked.disk}' is already being used by "
            f"'{asked.writer}'",
            f"{asked.writer} has the disk attached for writing, and only one node may.",
            "Wait until its pod has ended and the disk is detached.",
            grpc="FailedPrecondition",
        )
    return None


def _readers(asked: AttachRequest) -> DiskTrouble | None:
    if asked.type != HYPERDISK_ML or not asked.read_only:
        return None
    readers = asked.readers + 1
    ceiling = max_readers(asked.size_gib)
    if readers > ceiling:
        return _cannot_attach(
            "readers",
            f"{SIMULATED} Failed to Attach: disk {asked.disk} is attached to {asked.readers} instances, the most for its "
            "size",
            f"A volume of {asked.size_gib} GiB is attached by at most {ceiling} nodes at once.",
            "Make the volume smaller (256 GiB allows 2,500 nodes) or give the fleet several copies of it.",
            grpc="ResourceExhausted",
        )
    needed = throughput_for_readers_mibps(readers)
    if asked.throughput_mibps < needed:
        return _cannot_attach(
            "throughput-per-reader",
            f"{SIMULATED} Failed to Attach: disk {asked.disk} with {asked.throughput_mibps} MiB/s cannot be attached to "
            f"{readers} instances",
            f"Above 20 readers each needs {MBPS_PER_READER} MB/s: {needed} MiB/s for {readers}, and the volume has "
            f"{asked.throughput_mibps}.",
            f"Set weights.throughputMibps to {needed} or more.",
            grpc="ResourceExhausted",
        )
    return None


ATTACH_RULES: Final[tuple[AttachRule, ...]] = (_machine_takes_it, _same_zone, _one_way, _readers)


def attaches(disk_type: str, machine_type: str) -> bool:
    """Whether nodes of this machine type can attach disks of this type."""
    family = machine_type.partition("-")[0]
    if disk_type == HYPERDISK_ML:
        return attaches_hyperdisk_ml(machine_type)
    if disk_type.startswith("pd-"):
        return family in PERSISTENT_DISK_FAMILIES
    return family not in NO_HYPERDISK_FAMILIES
