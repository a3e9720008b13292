"""Allocatable resources of a node: its machine type and disk, minus GKE's reservations and DaemonSets.

Source: GKE docs, "Plan node sizes": reserved CPU and memory. Assumed: DaemonSets request half a core and 1 GiB, 1.5
cores and 4 GiB with the GPU's device plugin and metrics.

Autopilot sizes a boot disk by the requests of the node's pods. Source: GKE cluster autoscaler of 2026-08-20, estimator/disk_size.go and
gke/reserved.go; Kubernetes autoscaler, gce/reserved.go, Container-Optimized OS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from facts.machines import LOCAL_SSD_GB, Machine
from facts.sizing import VLLM_IMAGE_UNPACKED_GIB

GIB: Final = 2**30
SMALLEST_BOOT_DISK_GIB: Final = 100
LARGEST_BOOT_DISK_GIB: Final = 64 * 1024
BOOT_DISK_BESIDE_LOCAL_SSD_GIB: Final = 250
"""Boot disk of a node whose pods are on local SSDs. Source of all three: GKE cluster autoscaler, machinetypes/disks.go."""
LOCAL_SSD_INSTEAD_ABOVE_GIB: Final = 400
"""Boot disk above which a pod asks for optional local SSDs. Chosen: an L4's local SSD and the boot disk beside it cost as much as a boot
disk of 550 GiB, and new projects have a quota of 250 or 500 GB for SSD disks."""

SHARE_PERCENT: Final = 90
"""Maximum default request, as a share of the machine's capacity for the pod. Assumed: the requests of system pods are not published."""
LOCAL_SSD_REQUEST_GIB: Final = 500
"""Default disk request per pod on a machine type that always has local SSDs, where a request costs nothing."""
LEAST_EPHEMERAL_STORAGE_GIB: Final = 20
"""Minimum disk request without weights. Assumed: logs, a tokenizer and compile caches are a few GiB."""
BOOT_DISK_REQUEST_GIB: Final = VLLM_IMAGE_UNPACKED_GIB + LEAST_EPHEMERAL_STORAGE_GIB
"""Default disk request per pod elsewhere, without weights: GKE makes the boot disk as large as the requests need, and it counts against
the project's SSD quota. The kubelet does not count image layers as the pod's, but they are on the same disk."""

_CPU_STEPS: Final = ((1, 0.06), (1, 0.01), (2, 0.005), (math.inf, 0.0025))
_MEMORY_STEPS: Final = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (math.inf, 0.02))
_EVICTION_BYTES: Final = 100 * 2**20
_DISK_EVICTION_SHARE: Final = 0.1
"""Share of a disk that the kubelet keeps free."""
_LOCAL_SSD_RESERVED_GIB: Final = {1: 50, 2: 75}
_MORE_LOCAL_SSDS_RESERVED_GIB: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Maximum requests of pods."""

    cpu_milli: int
    memory_bytes: int
    ephemeral_bytes: int

    def share(self, part: int, whole: int) -> Room:
        """The share of `part` of `whole` GPUs."""
        return Room(
            cpu_milli=self.cpu_milli * part // whole,
            memory_bytes=self.memory_bytes * part // whole,
            ephemeral_bytes=self.ephemeral_bytes * part // whole,
        )

    @property
    def cpu(self) -> int:
        """Whole vCPU."""
        return self.cpu_milli // 1000

    @property
    def memory_gib(self) -> int:
        """Whole GiB."""
        return self.memory_bytes // GIB

    @property
    def ephemeral_gib(self) -> int:
        """Whole GiB."""
        return self.ephemeral_bytes // GIB


def boot_disk_gib(requested_bytes: float) -> int:
    """Boot disk of a node whose pods request this much ephemeral storage."""
    low, high = 0, LARGEST_BOOT_DISK_GIB
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if boot_disk_room(middle) >= requested_bytes else (middle, high)
    return max(SMALLEST_BOOT_DISK_GIB, high + min(int(high * 0.05), 100))


def boot_disk_room(disk_gib: int) -> int:
    """Allocatable bytes of ephemeral storage on a boot disk."""
    disk = disk_gib * GIB
    system = 0.015635 * disk + 4.148 * GIB + min(100 * 2**20, 0.001 * disk)
    kubelet = min(6 + int(0.35 * disk_gib), disk_gib // 2, 100) * GIB
    return int((disk - system) * (1 - _DISK_EVICTION_SHARE) - kubelet)


def local_ssd_room(disk_gb: int) -> int:
    """Allocatable bytes of ephemeral storage on local SSDs of this total size."""
    reserved = _LOCAL_SSD_RESERVED_GIB.get(disk_gb // LOCAL_SSD_GB, _MORE_LOCAL_SSDS_RESERVED_GIB)
    # GiB treated as GB, to allow for the file system.
    return int(disk_gb * 10**9 * (1 - _DISK_EVICTION_SHARE)) - reserved * GIB


def room(*, vcpu: int, memory_gib: float, ephemeral_bytes: int, gpus: bool) -> Room:
    """Allocatable resources of a node with this much allocatable ephemeral storage."""
    return Room(
        cpu_milli=vcpu * 1000 - math.ceil(_stepped(vcpu, _CPU_STEPS) * 1000) - (1_500 if gpus else 500),
        memory_bytes=int(memory_gib * GIB)
        - (math.ceil(_stepped(memory_gib, _MEMORY_STEPS) * GIB) + _EVICTION_BYTES)
        - (4 if gpus else 1) * GIB,
        ephemeral_bytes=ephemeral_bytes,
    )


def of_machine(machine: Machine, *, local_ssd: bool = False) -> Room:
    """Allocatable resources of a machine type. `local_ssd`: with optional local SSDs; without any, its boot disk is the largest."""
    on_ssd = machine.local_ssd == "always" or local_ssd
    return room(
        vcpu=machine.vcpu,
        memory_gib=machine.memory_gib,
        ephemeral_bytes=local_ssd_room(machine.local_ssd_gb) if on_ssd else boot_disk_room(LARGEST_BOOT_DISK_GIB),
        gpus=True,
    )


def boot_disk_of(machine: Machine, *, requested_gib: float, local_ssd: bool = False) -> int:
    """GiB of the boot disk of such a node whose pods request this much ephemeral storage."""
    if machine.local_ssd == "always" or local_ssd:
        return BOOT_DISK_BESIDE_LOCAL_SSD_GIB
    return boot_disk_gib(requested_gib * GIB)


def pod_disk_gib(machine: Machine, gpus: int, *, downloaded_gb: float = 0, beside_gib: int = 0) -> int:
    """Default disk request of a server pod with this number of GPUs. `downloaded_gb`: weights that it downloads to its own disk.
    `beside_gib`: of other containers in the pod.
    """
    if machine.local_ssd == "always":
        share = of_machine(machine).share(gpus * SHARE_PERCENT, machine.gpus * 100)
        return min(LOCAL_SSD_REQUEST_GIB, share.ephemeral_gib - beside_gib)
    return BOOT_DISK_REQUEST_GIB + math.ceil(downloaded_gb * 1e9 / GIB)


def _stepped(amount: float, steps: tuple[tuple[float, float], ...]) -> float:
    total, left = 0.0, amount
    for width, share in steps:
        part = min(left, width)
        total += part * share
        left -= part
    return total
