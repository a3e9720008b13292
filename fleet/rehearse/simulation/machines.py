"""The machines that Autopilot would make: their sizes, and what of each is left for pods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from facts import node_room
from fleet.rehearse.simulation.pod_needs import GIB, Amounts

GPU_MACHINE: Final = "a4-highgpu-8g"
GPU_TYPE: Final = "nvidia-b200"
GPUS: Final = 8
# Source: GKE cluster autoscaler, machine types: 224 vCPU, 3968 GiB, eight B200 and no other number.

DEFAULT_BOOT_DISK_GB: Final = 250
CLASS_BOOT_DISK_GB: Final = node_room.BOOT_DISK_GIB
"""Autopilot's boot disks; the larger one for Performance and Accelerator. Source: GKE cluster autoscaler, disks.go."""
LOCAL_SSD_GB: Final = 32 * 375
"""The A4's 32 local SSDs, all of them ephemeral storage. Source: the same; 375 GB each is Compute Engine's size."""
PODS_PER_NODE: Final = 32
"""Source: GKE docs, Autopilot: a /26 of addresses and 32 pods a node."""
SMALLEST_GENERAL_VCPU: Final = 4
LARGEST_GENERAL_VCPU: Final = 16
"""Small pods share general-purpose nodes of these sizes where they fit. Assumed: Autopilot does not publish its choice."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type."""

    name: str
    vcpu: int
    memory_gib: float
    gpus: int = 0
    ephemeral_gb: int = CLASS_BOOT_DISK_GB

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
        """Type of the boot disk: the newer families take no Persistent Disk at all."""
        return "pd-balanced" if self.family in PERSISTENT_DISK_FAMILIES else "hyperdisk-balanced"

    @property
    def capacity(self) -> Amounts:
        """What the node's status calls capacity."""
        return Amounts(
            cpu_milli=self.vcpu * 1000,
            memory_bytes=int(self.memory_gib * GIB),
            ephemeral_bytes=self.ephemeral_gb * 10**9,
            gpus=self.gpus,
            pods=PODS_PER_NODE,
        )

    @property
    def allocatable(self) -> Amounts:
        """What is left for pods: less what GKE reserves for kubelet and system, and what its DaemonSets ask for. The
        rehearsal runs no DaemonSets, so their share is taken off here.
        """
        whole = self.capacity
        left = node_room.room(
            vcpu=self.vcpu,
            memory_gib=self.memory_gib,
            ephemeral_gb=self.ephemeral_gb,
            gpus=self.gpus > 0,
            local_ssd=self.gpus > 0,
        )
        return replace(
            whole,
            cpu_milli=left.cpu_milli,
            memory_bytes=left.memory_bytes,
            ephemeral_bytes=left.ephemeral_bytes,
            # Eight of them are DaemonSets' (assumed).
            pods=PODS_PER_NODE - 8,
        )


ARM_FAMILIES: Final = frozenset({"c4a", "n4a", "t2a", "a4x"})
PERSISTENT_DISK_FAMILIES: Final = frozenset({"e2", "n1", "n2", "n2d", "c3", "c3d", "t2a", "t2d"})
# Source: GKE cluster autoscaler and Compute Engine docs: C4, C4A, C4D, N4 and A4 take Hyperdisk only.

A4: Final = Machine(GPU_MACHINE, 224, 3968.0, GPUS, LOCAL_SSD_GB)

# vCPU sizes and GiB a vCPU by variant. Source: Compute Engine docs, machine families; the sizes that GKE pods meet.
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
    """Every machine of a family, smallest first: by vCPU, then by memory."""
    sizes, variants = _FAMILIES.get(family, ((), {}))
    ephemeral = DEFAULT_BOOT_DISK_GB if family == "e2" else CLASS_BOOT_DISK_GB
    every = (
        Machine(f"{family}-{variant}-{vcpu}", vcpu, vcpu * gib, ephemeral_gb=ephemeral)
        for vcpu in sizes
        for variant, gib in variants.items()
    )
    return tuple(sorted(every, key=lambda one: (one.vcpu, one.memory_gib)))


def smallest(family: str, needs: Amounts, *, machine_type: str | None = None) -> Machine | None:
    """The smallest machine of the family that holds these amounts beside the system's own; None when none does."""
    for machine in machines(family):
        if machine_type not in (None, machine.name):
            continue
        if needs.times_in(machine.allocatable) >= 1:
            return machine
    return None


def general_purpose(needs: Amounts, pods: int) -> Machine | None:
    """A general-purpose machine for up to this many equal pods: together on one of a moderate size, or the smallest that
    holds one of them.
    """
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
