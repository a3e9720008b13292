"""Limits of Hyperdisk ML, and which machines attach which disks. The pack's own copy; a test holds it against the planner's.

Source: Google Cloud documentation, "About Hyperdisk for GKE" and "About Hyperdisk ML"; Compute Engine release notes of
2026-03; the persistent-disk CSI driver's table of machines, 2026-08.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

import figures

TYPE: Final = "hyperdisk-ml"
MIB: Final = 2**20
GIB: Final = 2**30

MIN_SIZE_GIB: Final[int] = figures.constant("facts.disks.MIN_SIZE_GIB")
MAX_SIZE_GIB: Final[int] = figures.constant("facts.disks.MAX_SIZE_GIB")
MAX_THROUGHPUT_MIBPS: Final[int] = figures.constant("facts.disks.MAX_THROUGHPUT_MIBPS")
MAX_MIBPS_PER_GIB: Final[int] = figures.constant("facts.disks.MAX_MIBPS_PER_GIB")
MIN_THROUGHPUT_MIBPS: Final[int] = figures.constant("facts.disks.MIN_THROUGHPUT_MIBPS")
MIN_MIBPS_PER_GIB: Final[float] = figures.constant("facts.disks.MIN_MIBPS_PER_GIB")
READERS_WITHOUT_A_SHARE: Final[int] = figures.constant("facts.disks.READERS_WITHOUT_A_SHARE")
MBPS_PER_READER: Final[int] = figures.constant("facts.disks.MBPS_PER_READER")

READER_CEILINGS: Final = ((256, 2500), (1024, 600), (2048, 300), (16 * 1024, 128), (MAX_SIZE_GIB, 30))
"""Largest size in GiB, and how many VMs may attach such a volume read-only."""
ATTACHING_FAMILIES: Final = frozenset({"a2", "a3", "a4", "a4x", "c3", "c3d", "c4a", "g2", "g4", "n4a"})
"""Machine families that attach Hyperdisk ML. C4 is in one source of two, so it does not count."""
HYPERDISK_ONLY_FAMILIES: Final = frozenset({"a4", "a4x", "c4", "c4a"})
"""Machine families that attach no Persistent Disk of any kind. Source: GKE cluster autoscaler, machine types."""
DEFAULT_CLASSES: Final = {
    "": "pd-balanced",
    "standard-rwo": "pd-balanced",
    "premium-rwo": "pd-ssd",
    "standard": "pd-standard",
}
"""Disk types of the StorageClasses that GKE makes by itself; "" is a claim that names none."""


def limits_broken(size_gib: float, throughput_mibps: float | None, readers: int) -> Iterator[str]:
    """What Google refuses or cannot serve about a volume, in words with the limit."""
    if not MIN_SIZE_GIB <= size_gib <= MAX_SIZE_GIB:
        yield f"{size_gib:g} GiB is outside the {MIN_SIZE_GIB} to {MAX_SIZE_GIB:,} GiB of a Hyperdisk ML volume"
        return
    ceiling = max_readers(size_gib)
    if readers > ceiling:
        yield f"{readers} readers are more than the {ceiling} nodes that may attach a volume of {size_gib:g} GiB"
    if throughput_mibps is None:
        return
    lowest, highest = throughput_floor_mibps(size_gib), throughput_ceiling_mibps(size_gib)
    if throughput_mibps < lowest:
        yield f"{throughput_mibps:g} MiB/s is below the {ceil(lowest)} MiB/s that a volume of {size_gib:g} GiB must have"
    elif throughput_mibps > highest:
        yield f"{throughput_mibps:g} MiB/s is above the {highest:,.0f} MiB/s that a volume of {size_gib:g} GiB can have"
    needed = throughput_for_readers_mibps(readers)
    if throughput_mibps < needed:
        yield (
            f"{throughput_mibps:g} MiB/s is below the {needed} MiB/s that {readers} readers need: "
            f"{MBPS_PER_READER} MB/s each, above {READERS_WITHOUT_A_SHARE} readers"
        )


def throughput_floor_mibps(size_gib: float) -> float:
    """Lowest throughput that can be provisioned."""
    return max(float(MIN_THROUGHPUT_MIBPS), MIN_MIBPS_PER_GIB * size_gib)


def throughput_ceiling_mibps(size_gib: float) -> float:
    """Highest throughput that can be provisioned."""
    return min(MAX_MIBPS_PER_GIB * size_gib, float(MAX_THROUGHPUT_MIBPS))


def max_readers(size_gib: float) -> int:
    """Nodes that may attach a volume of this size read-only at once."""
    return next((ceiling for largest, ceiling in READER_CEILINGS if size_gib <= largest), 0)


def throughput_for_readers_mibps(readers: int) -> int:
    """Lowest throughput that Google asks for that many readers; 0 up to 20 of them."""
    if readers <= READERS_WITHOUT_A_SHARE:
        return 0
    return ceil(readers * MBPS_PER_READER * 10**6 / MIB)


def cannot_attach(disk_type: str, family: str) -> str:
    """Why a machine of this family cannot attach a disk of this type; empty where it can, or where nobody said."""
    if disk_type == TYPE and family not in ATTACHING_FAMILIES:
        return f"{family.upper()} machines attach no Hyperdisk ML; {', '.join(sorted(ATTACHING_FAMILIES)).upper()} do"
    if disk_type.startswith("pd-") and family in HYPERDISK_ONLY_FAMILIES:
        return f"{family.upper()} machines attach Hyperdisk alone, no Persistent Disk"
    return ""
