"""C4 machine types and what a pod may ask of one, for tests of what runs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from facts import node_room
from lab.nodes.pods import quantity

SIZES = (2, 4, 8, 16, 24, 32, 48, 96, 144, 192, 288)
GIB_PER_VCPU = {"standard": 3.75, "highcpu": 2.0, "highmem": 7.75}
"""Source of both: Compute Engine docs, machine families."""


@dataclass(frozen=True)
class Machine:
    """One machine type."""

    name: str
    vcpu: int
    memory_gib: float

    def holds(self, requests: Mapping[str, str]) -> int:
        """How many pods with these requests fit, on the largest boot disk."""
        disk = node_room.boot_disk_room(node_room.LARGEST_BOOT_DISK_GIB)
        room = node_room.room(vcpu=self.vcpu, memory_gib=self.memory_gib, ephemeral_bytes=disk, gpus=False)
        have = {
            "cpu": room.cpu_milli / 1000,
            "memory": room.memory_bytes,
            "ephemeral-storage": room.ephemeral_bytes,
        }
        return min(int(have[name] // quantity(amount)) for name, amount in requests.items())


def smallest(requests: Mapping[str, str]) -> Machine | None:
    """The smallest type, by vCPU, then memory, that holds a pod with these requests."""
    every = [
        Machine(f"c4-{variant}-{vcpu}", vcpu, vcpu * gib) for vcpu in SIZES for variant, gib in GIB_PER_VCPU.items()
    ]
    every.sort(key=lambda one: (one.vcpu, one.memory_gib))
    return next((one for one in every if one.holds(requests)), None)
