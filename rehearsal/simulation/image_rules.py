"""The rules of taking an image of a disk: a class that will do, a bound claim, and nobody who still writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rehearsal.simulation.disk_rules import DiskTrouble

SNAPSHOT_PARAMETERS: Final = frozenset({"snapshot-type", "image-family", "storage-locations", "resource-tags"})
SNAPSHOT_TYPES: Final = ("snapshots", "images")


def refuse_snapshot_class(driver: str, own_driver: str, parameters: Mapping[str, str]) -> DiskTrouble | None:
    """What is wrong with a VolumeSnapshotClass; None when it will do."""
    if driver != own_driver:
        return _cannot_image(
            "other-driver",
            f"volume snapshot class is of driver {driver}, the volume of {own_driver}",
            f"The class belongs to another driver, {driver}.",
            f"Set driver: {own_driver}.",
        )
    unknown = sorted(set(parameters) - SNAPSHOT_PARAMETERS)
    kind = parameters.get("snapshot-type", "snapshots")
    if unknown or kind not in SNAPSHOT_TYPES:
        wrong = f'"{unknown[0]}"' if unknown else f'"snapshot-type" = "{kind}"'
        return _cannot_image(
            "snapshot-parameter",
            f"Invalid snapshot parameters: parameters contains invalid option {wrong}",
            f"The class has a parameter the driver does not take: {wrong}.",
            f"Known are {', '.join(sorted(SNAPSHOT_PARAMETERS))}; snapshot-type is {' or '.join(SNAPSHOT_TYPES)}.",
        )
    return None


def mounted(claim: str, pods: tuple[str, ...]) -> DiskTrouble:
    """The trouble of an image of a disk that is still written.

    Google takes it all the same (the driver forces it), and the file system in it is torn. The rehearsal refuses instead.
    """
    return _cannot_image(
        "still-mounted",
        f"rehearsal: claim {claim} is still mounted by {', '.join(pods)}",
        f"{', '.join(pods)} still has the volume mounted. Google would take the image all the same, and it would hold half a "
        "file system that no reader can mount; the rehearsal stops here instead.",
        "Take the image after the writer's Job is complete (depends_on the Job).",
    )


def not_bound(claim: str) -> DiskTrouble:
    """The trouble of an image of a claim that has no volume, or is not there."""
    return _cannot_image(
        "claim-not-bound",
        f"the volumesnapshot source PVC {claim} is not bound",
        f"Claim {claim} has no volume yet.",
        "Take the image after the writer's Job is complete: it is its pod that gets the volume bound.",
    )


def no_class(name: str) -> DiskTrouble:
    """The trouble of an image whose class is not there."""
    return _cannot_image(
        "no-class",
        f'failed to get snapshot class with error volumesnapshotclasses.snapshot.storage.k8s.io "{name}" not found',
        f"There is no VolumeSnapshotClass {name or '(none named)'}.",
        "Create the class first (depends_on).",
    )


def _cannot_image(code: str, text: str, message: str, fix: str) -> DiskTrouble:
    shown = f"Failed to create snapshot content with error {text}"
    return DiskTrouble(code=code, event="SnapshotContentCreationFailed", shown=shown, message=message, fix=fix)
