"""What remains after a destroy: retained and unexpected resources.

Disks and images are judged by the state: their class says whether Google would keep them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from facts import prices
from lab.control_plane.api import PERSISTENT_VOLUME, ApiRefusedError, ClusterApi, Manifest
from lab.engine.state import StackState, Stored
from lab.nodes.pods import quantity
from lab.results.result import Retained
from lab.stage.objects import objects_of, refs_of

RECLAIM_SECONDS: Final = 20.0
"""Time for a disk to go after its claim. Assumed."""
_POLL_SECONDS: Final = 0.2
_SNAPSHOT: Final = "VolumeSnapshot"
CLAIM: Final = "PersistentVolumeClaim"


def account(api: ClusterApi, before: StackState, after: StackState) -> tuple[tuple[Retained, ...], tuple[str, ...]]:
    """What remains of a destroyed stack, retained and unexpected. Waits for disks that are being deleted."""
    gone = [resource for resource in before.resources if after.get(resource.urn) is None]
    kept = set(objects_of(after))
    unexpected = [
        str(ref)
        for resource in gone
        if not resource.retain_on_delete
        for ref in refs_of(resource)
        if ref not in kept and _exists(api, ref.kind, ref.name, ref.namespace)
    ]
    claims = {(ref.namespace, ref.name) for one in gone for ref in refs_of(one) if ref.kind.kind == CLAIM}
    unexpected += [f"{one['kind']}/{one['metadata']['name']}" for one in _disks_left(api, claims)]
    retained = [*_disks(gone, before), *declared(gone)]
    return tuple(sorted(retained, key=lambda one: (one.kind, one.name))), tuple(sorted(unexpected))


def _disks_left(api: ClusterApi, claims: set[tuple[str | None, str]]) -> list[Manifest]:
    """Volumes of these claims that do not go."""
    deadline = time.monotonic() + RECLAIM_SECONDS
    while True:
        left = [one for one in api.list_all(PERSISTENT_VOLUME) if _claim_of(one) in claims]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_POLL_SECONDS)


def _claim_of(volume: Manifest) -> tuple[str | None, str]:
    reference = volume["spec"].get("claimRef") or {}
    return reference.get("namespace"), reference.get("name", "")


def _disks(gone: Iterable[Stored], before: StackState) -> Iterator[Retained]:
    """Disks and images whose class has the policy Retain."""
    policies = {
        one.id: one.inputs.get("reclaimPolicy") or one.inputs.get("deletionPolicy") or "Delete"
        for one in before.resources
        if one.type.endswith((":StorageClass", ":VolumeSnapshotClass"))
    }
    for one in gone:
        spec: Mapping[str, Any] = one.inputs.get("spec") or {}
        if one.type.endswith(f":{CLAIM}") and policies.get(str(spec.get("storageClassName"))) == "Retain":
            size = quantity(spec["resources"]["requests"]["storage"]) / 2**30
            yield _kept("Disk", one, "reclaimPolicy Retain of its StorageClass", f"of {size:.0f} GiB")
        if one.type.endswith(f":{_SNAPSHOT}") and policies.get(str(spec.get("volumeSnapshotClassName"))) == "Retain":
            yield _kept(
                "Disk image",
                one,
                "deletionPolicy Retain of its VolumeSnapshotClass: it holds the weights",
                "billed by its content",
            )


def _kept(kind: str, one: Stored, why: str, note: str = "") -> Retained:
    return Retained(kind=kind, name=one.id.rpartition("/")[2], why=why, note=note)


def declared(destroyed: Iterable[Stored]) -> Iterator[Retained]:
    """Resources retained by their options or by Google's fields."""
    for resource in destroyed:
        inputs: Mapping[str, Any] = resource.inputs
        title = resource.type.rpartition(":")[2]
        if resource.retain_on_delete:
            yield _kept(title, resource, "retain_on_delete")
        elif resource.type == "gcp:projects/service:Service" and inputs.get("disableOnDestroy") is False:
            yield Retained(
                kind="API",
                name=str(inputs.get("service", resource.name)),
                why="disable_on_destroy is false: the project may use it elsewhere",
            )
        elif resource.type == "gcp:storage/bucket:Bucket" and inputs.get("forceDestroy") is False:
            price = prices.find("bucket", str(inputs.get("location", "")).lower())
            yield Retained(
                kind="Bucket",
                name=str(inputs.get("name", resource.name)),
                why="force_destroy is false: destroy fails while it holds objects",
                note="free when empty" + (f", else ${price.usd:.2f} per GiB a month" if price is not None else ""),
            )


def _exists(api: ClusterApi, kind: Any, name: str, namespace: str | None) -> bool:
    try:
        return api.get(kind, name, namespace) is not None
    except ApiRefusedError as refusal:
        if refusal.status == 404:  # The kind does not exist.
            return False
        raise
