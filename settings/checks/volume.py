"""Checks of a weights volume against its model and Hyperdisk ML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts import disks
from facts.finding import Finding
from settings.row import Row
from settings.sections.model import Model
from settings.sections.weights import Weights

LFS_SPACE_FACTOR: Final = 1.1
"""Space the download needs, as a multiple of the model: objects, hard-linked as files, and file system overhead.
Measured: workloads/weights/weights_download.sh peaked at 1.0 on ext4. Assumed: the rest is margin."""
_FIELDS: Final = {"size_gib": "sizeGib", "throughput_mibps": "throughputMibps", "readers": "sizeGib"}
_LIMIT = Row(
    "hyperdisk-limit",
    "Hyperdisk ML rejects the volume, or its readers slow each other down at start",
    "a value in the range",
)
_SMALL = Row(
    "weights-volume-too-small",
    "the volume must hold the model and the file system's overhead",
    "a sizeGib in the range",
)


def volume_problems(weights: Weights, model: Model, *, readers: int) -> Iterator[Finding]:
    """Every limit that the volume exceeds. `readers`: nodes that mount it."""
    size, throughput = weights.size_gib, weights.throughput_mibps
    for finding in disks.check_volume(size_gib=size, throughput_mibps=throughput, readers=readers):
        given = throughput if finding.field == "throughput_mibps" else size
        yield _LIMIT(f"weights.{_FIELDS[finding.field]}", given, f"{finding.message}: {finding.remedy}")
    needed_gib = model.size_gb * 1e9 / 2**30 * LFS_SPACE_FACTOR
    if size < needed_gib:
        yield _SMALL("weights.sizeGib", size, f"{int(needed_gib) + 1} or more for {model.id} ({model.size_gb:g} GB)")
