"""Allocatable resources of a node: its machine type minus GKE's reservations and DaemonSets.

Source: GKE docs, "Plan node sizes": reserved CPU, memory and ephemeral storage. Assumed: DaemonSets request half a core and 1 GiB, 1.5
cores and 4 GiB with the GPU's device plugin and metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from facts.machines import Machine

GIB: Final = 2**30
BOOT_DISK_GIB: Final = 400
"""Boot disk of an Autopilot node with GPUs or of the Performance class. Source: GKE cluster autoscaler, disks.go."""

_CPU_STEPS: Final = ((1, 0.06), (1, 0.01), (2, 0.005), (math.inf, 0.0025))
_MEMORY_STEPS: Final = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (math.inf, 0.02))
_EVICTION_BYTES: Final = 100 * 2**20


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


def room(*, vcpu: int, memory_gib: float, ephemeral_gb: int, gpus: bool, local_ssd: bool) -> Room:
    """Allocatable resources of a node. `local_ssd`: ephemeral storage is on local SSDs, not on the boot disk."""
    disk = ephemeral_gb * 10**9
    return Room(
        cpu_milli=vcpu * 1000 - math.ceil(_stepped(vcpu, _CPU_STEPS) * 1000) - (1_500 if gpus else 500),
        memory_bytes=int(memory_gib * GIB)
        - (math.ceil(_stepped(memory_gib, _MEMORY_STEPS) * GIB) + _EVICTION_BYTES)
        - (4 if gpus else 1) * GIB,
        # The kubelet evicts at 10 % free; the other reservation on a boot disk is at most 100 GiB.
        ephemeral_bytes=int(disk * 0.9) - (0 if local_ssd else min(int(disk * 0.3), 100 * GIB)),
    )


def of_machine(machine: Machine, *, local_ssd: bool = False) -> Room:
    """Allocatable resources of a machine type. `local_ssd`: with optional local SSDs."""
    on_ssd = machine.local_ssd == "always" or local_ssd
    return room(
        vcpu=machine.vcpu,
        memory_gib=machine.memory_gib,
        # GiB treated as GB, to allow for the file system.
        ephemeral_gb=machine.local_ssd_gb if on_ssd else BOOT_DISK_GIB,
        gpus=True,
        local_ssd=on_ssd,
    )


def first_with_room(machines: Iterable[Machine], *, cpu_milli: float, memory_bytes: float) -> Machine | None:
    """The first of these machines that has room for a pod's requests, as GKE chooses; None where none has."""
    for machine in machines:
        room = of_machine(machine)
        if cpu_milli <= room.cpu_milli and memory_bytes <= room.memory_bytes:
            return machine
    return None


def _stepped(amount: float, steps: tuple[tuple[float, float], ...]) -> float:
    total, left = 0.0, amount
    for width, share in steps:
        part = min(left, width)
        total += part * share
        left -= part
    return total
