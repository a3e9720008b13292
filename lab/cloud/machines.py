"""Machine types that Autopilot creates, with their sizes and allocatable resources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from facts import machines as gpu_machines
from facts import node_room
from lab.cloud.pod_needs import GIB, Amounts

SHARED_BOOT_DISK_GIB: Final = 250
"""Boot disk of a node that later pods share. Assumed: GKE's autoscaler estimates their number and disks."""
PODS_PER_NODE: Final = 32
"""Source: GKE docs, Autopilot: a /26 of addresses and 32 pods a node."""
SMALLEST_GENERAL_VCPU: Final = 4
LARGEST_GENERAL_VCPU: Final = 16
"""Small pods share general-purpose nodes of these sizes. Assumed: Autopilot does not publish its choice."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type."""

    name: str
    vcpu: int
    memory_gib: float
    gpus: int = 0
    disk_gib: int = node_room.LARGEST_BOOT_DISK_GIB
    """Size of the disk with the pods' ephemeral storage, GB of local SSDs included. A boot disk is the largest until `trimmed`."""
    local_ssd: bool = False
    """Whether ephemeral storage is on local SSDs instead of the boot disk."""

    @property
    def accelerator(self) -> str:
        """`cloud.google.com/gke-accelerator` of its nodes; empty without GPUs."""
        return gpu_machines.find(self.name).accelerator if self.gpus else ""

    @property
    def family(self) -> str:
        """E.g. "c4a"."""
        return self.name.partition("-")[0]

    @property
    def arch(self) -> str:
        """`kubernetes.io/arch` of its nodes."""
        return "arm64" if self.family in ARM_FAMILIES else "amd64"

    @property
    def boot_disk(self) -> str:
        """Boot disk type: newer families do not support Persistent Disk."""
        if self.gpus:
            return gpu_machines.find(self.name).boot_disk
        return "pd-balanced" if self.family in PERSISTENT_DISK_FAMILIES else "hyperdisk-balanced"

    @property
    def capacity(self) -> Amounts:
        """The node's `capacity`."""
        return Amounts(
            cpu_milli=self.vcpu * 1000,
            memory_bytes=int(self.memory_gib * GIB),
            ephemeral_bytes=self.disk_gib * (10**9 if self.local_ssd else GIB),
            gpus=self.gpus,
            pods=PODS_PER_NODE,
        )

    @property
    def allocatable(self) -> Amounts:
        """The node's `allocatable`, less the requests of GKE's DaemonSets, which the rehearsal does not run."""
        whole = self.capacity
        left = node_room.room(
            vcpu=self.vcpu,
            memory_gib=self.memory_gib,
            ephemeral_bytes=(node_room.local_ssd_room if self.local_ssd else node_room.boot_disk_room)(self.disk_gib),
            gpus=self.gpus > 0,
        )
        return replace(
            whole,
            cpu_milli=left.cpu_milli,
            memory_bytes=left.memory_bytes,
            ephemeral_bytes=left.ephemeral_bytes,
            # Eight of them are DaemonSets' (assumed).
            pods=PODS_PER_NODE - 8,
        )

    @property
    def ssd_gib(self) -> int:
        """Boot disk of a machine with GPUs, as it counts against the quota of SSD Persistent Disk; 0 on Hyperdisk."""
        if not self.gpus or self.boot_disk != "pd-balanced":
            return 0
        return node_room.BOOT_DISK_BESIDE_LOCAL_SSD_GIB if self.local_ssd else self.disk_gib

    def trimmed(self, requested_bytes: int) -> Machine:
        """The machine with the boot disk that GKE makes for these requests of its pods. A disk of another size stays."""
        if self.local_ssd or self.disk_gib != node_room.LARGEST_BOOT_DISK_GIB:
            return self
        return replace(self, disk_gib=node_room.boot_disk_gib(requested_bytes))


ARM_FAMILIES: Final = frozenset({"c4a", "n4a", "t2a", "a4x"})
PERSISTENT_DISK_FAMILIES: Final = frozenset({"e2", "n1", "n2", "n2d", "c3", "c3d", "t2a", "t2d"})
# Source: GKE cluster autoscaler and Compute Engine docs: C4, C4A, C4D and N4 take Hyperdisk only.


def with_gpus(
    machine_type: str, *, local_ssd: bool = False, boot_disk_gib: int = node_room.LARGEST_BOOT_DISK_GIB
) -> Machine:
    """A machine type of facts/machines.py. `local_ssd`: requested where optional. Raises ValueError."""
    known = gpu_machines.find(machine_type)
    has_ssd = local_ssd or known.local_ssd == "always"
    disk_gib = known.local_ssd_gb if has_ssd else boot_disk_gib
    return Machine(known.type, known.vcpu, known.memory_gib, known.gpus, disk_gib, has_ssd)


# vCPU sizes, and GiB per vCPU by variant. Source: Compute Engine docs, machine families; the sizes used by GKE.
_INTEL: Final = (2, 4, 8, 16, 24, 32, 48, 96, 144, 192, 288)
_AXION: Final = (1, 2, 4, 8, 16, 32, 48, 64, 72)
_FAMILIES: Final[dict[str, tuple[tuple[int, ...], dict[str, float]]]] = {
    "c4": (_INTEL, {"standard": 3.75, "highcpu": 2.0, "highmem": 7.75}),
    "c4a": (_AXION, {"standard": 4.0, "highcpu": 2.0, "highmem": 8.0}),
    "c4d": ((2, 4, 8, 16, 32, 48, 64, 96, 192, 384), {"standard": 3.875, "highcpu": 1.875, "highmem": 7.875}),
    "c3": ((4, 8, 22, 44, 88, 176), {"standard": 4.0, "highcpu": 2.0, "highmem": 8.0}),
    "c3d": ((4, 8, 16, 30, 60, 90, 180, 360), {"standard": 4.0, "highcpu": 2.0, "highmem": 8.0}),
    "n4": ((2, 4, 8, 16, 32, 48, 64, 80), {"standard": 4.0, "highcpu": 2.0, "highmem": 8.0}),
    "n4a": ((1, 2, 4, 8, 16, 32, 48, 64), {"standard": 4.0, "highcpu": 2.0, "highmem": 8.0}),
    "n2": ((2, 4, 8, 16, 32, 48, 64, 80, 96, 128), {"standard": 4.0, "highcpu": 1.0, "highmem": 8.0}),
    "e2": ((2, 4, 8, 16, 32), {"standard": 4.0}),
}
FAMILIES: Final = frozenset(_FAMILIES)


def machines(family: str) -> tuple[Machine, ...]:
    """Machine types of a family, smallest first, by vCPU, then memory."""
    sizes, variants = _FAMILIES.get(family, ((), {}))
    disk_gib = SHARED_BOOT_DISK_GIB if family == "e2" else node_room.LARGEST_BOOT_DISK_GIB
    every = (
        Machine(f"{family}-{variant}-{vcpu}", vcpu, vcpu * gib, disk_gib=disk_gib)
        for vcpu in sizes
        for variant, gib in variants.items()
    )
    return tuple(sorted(every, key=lambda one: (one.vcpu, one.memory_gib)))


def smallest(family: str, needs: Amounts, *, machine_type: str | None = None) -> Machine | None:
    """The family's smallest machine type that fits these amounts, with a boot disk for one such pod; None if none fits."""
    named = (machine for machine in machines(family) if machine_type in (None, machine.name))
    machine = first_that_holds(needs, named)
    return machine and machine.trimmed(needs.ephemeral_bytes)


def first_that_holds(needs: Amounts, candidates: Iterable[Machine]) -> Machine | None:
    """The first machine type that fits these amounts; None if none fits."""
    return next((machine for machine in candidates if needs.times_in(machine.allocatable) >= 1), None)


def general_purpose(needs: Amounts, pods: int) -> Machine | None:
    """A general-purpose machine type for up to `pods` equal pods: all on one of moderate size, or the smallest that fits one."""
    best = None
    for machine in machines("e2"):
        held = needs.times_in(machine.allocatable)
        if held < 1 or machine.vcpu < SMALLEST_GENERAL_VCPU:
            continue
        if best is None or machine.vcpu <= LARGEST_GENERAL_VCPU:
            best = machine
        if held >= pods or machine.vcpu >= LARGEST_GENERAL_VCPU:
            break
    return best
