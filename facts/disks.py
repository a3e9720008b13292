"""Limits of Hyperdisk ML, the volume type that many nodes mount read-only.

Source: Google Cloud documentation, "About Hyperdisk for GKE" and "About Hyperdisk ML", Compute Engine release notes
of 2026-03 and 2026-08.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

TYPE: Final = "hyperdisk-ml"

MIN_SIZE_GIB = 4
MAX_SIZE_GIB = 64 * 1024
# Source: Compute Engine release notes, 2026-03-31 (older pages: 1,200,000).
MAX_THROUGHPUT_MIBPS = 2_097_152
MAX_MIBPS_PER_GIB = 1600
MIN_THROUGHPUT_MIBPS = 400
MIN_MIBPS_PER_GIB = 0.12
# Above this number of readers a volume needs at least 20 MiB/s for each. Source: Google Cloud release notes of 2026-08-03, by
# sources.yaml, finops-changelog-2026-08; before, 100.
READERS_WITHOUT_A_SHARE = 20
MIBPS_PER_READER = 20
# Source: summary of release notes, 2026-03: (largest size in GiB, VMs that can attach it read-only).
_READER_CEILINGS = ((256, 2500), (1024, 600), (2048, 300), (16 * 1024, 128), (MAX_SIZE_GIB, 30))
# Machine families that can attach Hyperdisk ML. C4 is left out, because only one of two sources lists it. Source: persistent-disk CSI
# driver, node-labeler table, 2026-08.
ATTACHING_FAMILIES = frozenset({"a2", "a3", "a4", "a4x", "c3", "c3d", "c4a", "g2", "g4", "n4a"})
OF_NEW_VOLUMES: Final = {"g4": "2026-02-04"}
"""Families that can only attach Hyperdisk ML created after that day. Source: persistent-disk CSI driver. The list of GKE's cluster
autoscaler does not have G4, so test it first."""
HYPERDISK_ONLY_FAMILIES: Final = frozenset({"a4", "a4x", "c4", "c4a", "g4"})
"""Machine families without support for Persistent Disk. Source: GKE cluster autoscaler, machine types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A limit that a volume exceeds."""

    field: str
    """Which argument is wrong: size_gib, throughput_mibps or readers."""
    value: float
    message: str
    """What is allowed, and why."""
    remedy: str
    """What to write."""


def throughput_floor_mibps(size_gib: float) -> float:
    """Minimum throughput of a volume of this size."""
    return max(float(MIN_THROUGHPUT_MIBPS), MIN_MIBPS_PER_GIB * size_gib)


def throughput_ceiling_mibps(size_gib: float) -> float:
    """Maximum throughput of a volume of this size."""
    return min(MAX_MIBPS_PER_GIB * size_gib, MAX_THROUGHPUT_MIBPS)


def max_readers(size_gib: float) -> int:
    """Maximum number of nodes that attach a volume of this size read-only."""
    for largest_gib, ceiling in _READER_CEILINGS:
        if size_gib <= largest_gib:
            return ceiling
    return 0


def throughput_for_readers_mibps(readers: int) -> int:
    """Minimum throughput for that many readers; 0 up to 20 readers."""
    return 0 if readers <= READERS_WITHOUT_A_SHARE else readers * MIBPS_PER_READER


def check_volume(*, size_gib: float, throughput_mibps: float | None, readers: int = 0) -> tuple[Finding, ...]:
    """Every limit that a volume of this size and throughput with this many readers exceeds."""
    if not MIN_SIZE_GIB <= size_gib <= MAX_SIZE_GIB:
        nearest = min(max(size_gib, MIN_SIZE_GIB), MAX_SIZE_GIB)
        return (
            Finding(
                field="size_gib",
                value=size_gib,
                message=f"Hyperdisk ML volumes are {MIN_SIZE_GIB} to {MAX_SIZE_GIB} GiB",
                remedy=f"set the size to {nearest:g} GiB",
            ),
        )
    # The default throughput is within the limits.
    throughput = () if throughput_mibps is None else _throughput_findings(size_gib, throughput_mibps, readers)
    return (*throughput, *_reader_findings(size_gib, readers))


def cannot_attach(disk_type: str, family: str) -> str:
    """Why a machine of this family cannot attach a disk of this type; empty if it can, or if it is unknown."""
    if disk_type == TYPE and family not in ATTACHING_FAMILIES:
        return (
            f"{family.upper()} machines cannot attach Hyperdisk ML; {', '.join(sorted(ATTACHING_FAMILIES)).upper()} can"
        )
    if disk_type.startswith("pd-") and family in HYPERDISK_ONLY_FAMILIES:
        return f"{family.upper()} machines can only attach Hyperdisk, no Persistent Disk"
    return ""


def _throughput_findings(size_gib: float, throughput_mibps: float, readers: int) -> list[Finding]:
    floor, ceiling = throughput_floor_mibps(size_gib), throughput_ceiling_mibps(size_gib)
    floor_whole = ceil(floor)
    size_that_would_do = ceil(throughput_mibps / MAX_MIBPS_PER_GIB)
    findings = []
    if throughput_mibps < floor:
        findings.append(
            Finding(
                field="throughput_mibps",
                value=throughput_mibps,
                message=f"a {size_gib:g} GiB volume needs at least {floor_whole} MiB/s (400, or 0.12 per GiB)",
                remedy=f"set the throughput to {floor_whole} MiB/s or more",
            )
        )
    elif throughput_mibps > ceiling:
        findings.append(
            Finding(
                field="throughput_mibps",
                value=throughput_mibps,
                message=f"a {size_gib:g} GiB volume has at most {ceiling:.0f} MiB/s (1,600 per GiB, 2,097,152 in total)",
                remedy=f"set the throughput to {ceiling:.0f} MiB/s or less, or the size to {size_that_would_do} GiB",
            )
        )
    needed = throughput_for_readers_mibps(readers)
    if throughput_mibps < needed:
        findings.append(
            Finding(
                field="throughput_mibps",
                value=throughput_mibps,
                message=f"with more than {READERS_WITHOUT_A_SHARE} readers each needs {MIBPS_PER_READER} MiB/s: "
                f"{needed} MiB/s for {readers}",
                remedy=f"set the throughput to {max(needed, floor_whole)} MiB/s or more",
            )
        )
    return findings


def _reader_findings(size_gib: float, readers: int) -> list[Finding]:
    ceiling = max_readers(size_gib)
    if readers <= ceiling:
        return []
    return [
        Finding(
            field="readers",
            value=readers,
            message=f"at most {ceiling} nodes can attach a {size_gib:g} GiB volume read-only",
            remedy="a smaller volume (256 GiB allows 2,500 nodes), or several copies of it",
        )
    ]
