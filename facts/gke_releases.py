"""GKE's versions: what a release channel has, and what a version has first."""

from __future__ import annotations

import re
from typing import Final

LOWEST: Final = {"RAPID": "1.35.0", "REGULAR": "1.35.0", "STABLE": "1.34.0"}
"""Lowest version of a new cluster by release channel. Source: GKE release notes of September 2026."""
LONG_NOTICE: Final = "1.35.0-gke.1171000"
"""First version whose Spot nodes may take 120 s to shut down. Source: GKE docs, Spot VMs, graceful termination, for node pools made
manually; for ComputeClasses the field of their definition (unverified)."""


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparisons."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def minor(version: str) -> str:
    """`1.35` of a version: GKE's alias for its newest patch. A patch by its number is refused once the channel no longer has it.
    Source: GKE docs, versioning, version aliases.
    """
    return ".".join(version.split(".")[:2])


def has_extended_shutdown(channel: str, min_version: str | None) -> bool:
    """Whether a new cluster of this channel has `LONG_NOTICE`. A minimum version with its patch says what the cluster is known to have."""
    if min_version is not None and ("-gke." in min_version or numbers(min_version) >= numbers(LONG_NOTICE)):
        return numbers(min_version) >= numbers(LONG_NOTICE)
    # A channel's lowest version is known without its patch: any version of a minor that channels had later is a later patch.
    return numbers(LOWEST[channel]) >= numbers(LONG_NOTICE)[:3]
