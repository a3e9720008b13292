"""Checks of a weights volume against its model and Hyperdisk ML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts import disks
from facts.finding import Finding
from settings.sections.model import Model
from settings.sections.section import key
from settings.sections.weights import Weights

LFS_SPACE_FACTOR: Final = 1.1
"""Space the download needs, as a multiple of the model: objects, hard-linked as files, and file system overhead.
Measured: workloads/weights/weights_download.sh peaked at 1.0 on ext4. Assumed: the rest is margin."""
_FIELDS: Final = {"size_gib": "sizeGib", "throughput_mibps": "throughputMibps", "readers": "sizeGib"}


def volume_problems(weights: Weights, model: Model, *, readers: int) -> Iterator[Finding]:
    """Every limit that the volume exceeds. `readers`: nodes that mount it."""
    for finding in disks.check_volume(
        size_gib=weights.size_gib, throughput_mibps=weights.throughput_mibps, readers=readers
    ):
        yield Finding(
            id="hyperdisk-limit",
            subject=key(f"weights.{_FIELDS[finding.field]}"),
            found=weights.throughput_mibps if finding.field == "throughput_mibps" else weights.size_gib,
            allowed=finding.message,
            why="Hyperdisk ML rejects the volume, or its readers slow each other down at start",
            write=finding.remedy,
        )
    needed_gib = model.size_gb * 1e9 / 2**30 * LFS_SPACE_FACTOR
    if weights.size_gib < needed_gib:
        yield Finding(
            id="weights-volume-too-small",
            subject=key("weights.sizeGib"),
            found=weights.size_gib,
            allowed=f"{int(needed_gib) + 1} or more for {model.id} ({model.size_gb:g} GB)",
            why="the volume must hold the model and the file system's overhead",
            write=f"sizeGib: {int(needed_gib) + 1}",
        )
