"""What remains after a destroy: retained resources with their prices, and unexpected remainders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from facts import prices
from facts.finding import Finding
from lab.cloud.pod_needs import GIB, quantity
from lab.control_plane.api import (
    PERSISTENT_VOLUME,
    VOLUME_SNAPSHOT_CONTENT,
    ApiRefusedError,
    ApiUnreachableError,
    ClusterApi,
    Kind,
    Manifest,
)
from lab.engine.state import StackState, Stored
from lab.providers.kubernetes.state import ObjectRef, objects_of, refs_of
from lab.providers.kubernetes.waiter import Waiter
from lab.results.result import Retained

RECLAIM_SECONDS: Final = 600.0
"""Time for a disk to be deleted after its claim. Assumed: Google takes less than a minute."""
_ZONE: Final = re.compile(r"/zones/([a-z]+-[a-z]+\d+)-[a-z]/")


def account(
    api: ClusterApi, waiter: Waiter, before: StackState, after: StackState
) -> tuple[tuple[Retained, ...], tuple[str, ...]]:
    """What remains of a destroyed stack, retained and unexpected. Waits for disks that are being deleted."""
    leftovers = Leftovers(api, before)
    claims_left = any(ref.kind.kind == "PersistentVolumeClaim" for ref in objects_of(after))
    try:
        for volume in [] if claims_left else leftovers.volumes():
            if not is_kept(volume, "persistentVolumeReclaimPolicy"):
                waiter.until_gone(Kind.of(volume), volume["metadata"]["name"], None, RECLAIM_SECONDS)
        gone = [resource for resource in before.resources if after.get(resource.urn) is None]
        retained = [*leftovers.retained(), *declared(gone)]
        unexpected = [] if claims_left else list(leftovers.unexpected())
        unexpected += map(str, leftovers.objects(after))
    except (ApiRefusedError, ApiUnreachableError) as error:
        return (), (f"the API server did not answer: {error}",)
    return tuple(sorted(retained, key=lambda one: (one.kind, one.name))), tuple(sorted(unexpected))


def findings_of(unexpected: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding per unexpected remainder."""
    return tuple(
        Finding(
            id="remains-after-destroy",
            subject=name,
            found=f"{name} remains after pulumi destroy, and the program does not retain it",
            write="let the program delete it, or set retain_on_delete",
        )
        for name in unexpected
    )


def declared(destroyed: Iterable[Stored]) -> Iterator[Retained]:
    """Resources retained by their options or by Google's fields."""
    for resource in destroyed:
        inputs: Mapping[str, Any] = resource.inputs
        title = resource.type.rpartition(":")[2]
        if resource.retain_on_delete:
            yield Retained(
                kind=title,
                name=resource.id.rpartition("/")[2],
                why="retain_on_delete",
                usd_per_month=None,
                note="price not known offline",
            )
        elif resource.type == "gcp:projects/service:Service" and inputs.get("disableOnDestroy") is False:
            yield Retained(
                kind="API",
                name=str(inputs.get("service", resource.name)),
                why="disable_on_destroy is false: the project may use it elsewhere",
                usd_per_month=0.0,
            )
        elif resource.type == "gcp:storage/bucket:Bucket" and inputs.get("forceDestroy") is False:
            price = prices.find("bucket", str(inputs.get("location", "")).lower())
            yield Retained(
                kind="Bucket",
                name=str(inputs.get("name", resource.name)),
                why="force_destroy is false: destroy fails while it holds objects",
                usd_per_month=None,
                note="free when empty" + (f", else ${price.usd:.2f} per GiB a month" if price is not None else ""),
            )


class Leftovers:
    """A stack's remainders in the cluster."""

    def __init__(self, api: ClusterApi, state: StackState) -> None:
        self._api, self._state = api, state
        refs = objects_of(state)
        self._claims = {(ref.namespace, ref.name) for ref in refs if ref.kind.kind == "PersistentVolumeClaim"}
        self._snapshots = {(ref.namespace, ref.name) for ref in refs if ref.kind.kind == "VolumeSnapshot"}

    def volumes(self) -> list[Manifest]:
        """Volumes of the stack's claims."""
        return [one for one in self._list(PERSISTENT_VOLUME) if _named(one["spec"].get("claimRef")) in self._claims]

    def contents(self) -> list[Manifest]:
        """Images and snapshots of the stack's volumes."""
        found = self._list(VOLUME_SNAPSHOT_CONTENT)
        return [one for one in found if _named(one["spec"].get("volumeSnapshotRef")) in self._snapshots]

    def objects(self, after: StackState) -> Iterator[ObjectRef]:
        """Objects of the stack that still exist, are not retained and are not in the state any more."""
        kept = set(objects_of(after))
        for resource in self._state.resources:
            for ref in () if resource.retain_on_delete else refs_of(resource):
                if ref not in kept and self._exists(ref):
                    yield ref

    def retained(self) -> Iterator[Retained]:
        """Disks and images whose class has the policy Retain."""
        for volume in self.volumes():
            if is_kept(volume, "persistentVolumeReclaimPolicy"):
                size = quantity((volume["spec"].get("capacity") or {}).get("storage")) / GIB
                yield _priced("Disk", volume, "hyperdisk-ml-capacity", size, "reclaimPolicy Retain of its StorageClass")
        for content in self.contents():
            if is_kept(content, "deletionPolicy"):
                size = float((content.get("status") or {}).get("restoreSize", 0)) / 2**30
                why = "deletionPolicy Retain of its VolumeSnapshotClass: it holds the weights"
                yield _priced("Disk image", content, "disk-image", size, why)

    def unexpected(self) -> Iterator[str]:
        """Volumes and snapshots that still exist and are not retained."""
        for one, policy in (
            *((volume, "persistentVolumeReclaimPolicy") for volume in self.volumes()),
            *((content, "deletionPolicy") for content in self.contents()),
        ):
            if not is_kept(one, policy):
                yield f"{one['kind']}/{one['metadata']['name']}"

    def _list(self, kind: Kind) -> list[Manifest]:
        try:
            return self._api.list_all(kind)
        except ApiRefusedError as refusal:
            if refusal.status == 404:  # The kind does not exist.
                return []
            raise

    def _exists(self, ref: ObjectRef) -> bool:
        try:
            return self._api.get(ref.kind, ref.name, ref.namespace) is not None
        except ApiRefusedError as refusal:
            if refusal.status == 404:
                return False
            raise


def is_kept(manifest: Manifest, policy: str) -> bool:
    """Whether a volume or snapshot content is retained."""
    return bool(manifest["spec"].get(policy) == "Retain")


def _named(reference: Mapping[str, Any] | None) -> tuple[str | None, str]:
    return (reference or {}).get("namespace"), (reference or {}).get("name", "")


def _priced(kind: str, manifest: Manifest, item: str, size_gib: float, why: str) -> Retained:
    spec, status = manifest["spec"], manifest.get("status") or {}
    handle = status.get("snapshotHandle") or (spec.get("csi") or {}).get("volumeHandle") or manifest["metadata"]["name"]
    # A disk's handle contains its zone. An image's does not, and its price depends on its location.
    zone = _ZONE.search(str(handle))
    price = None if zone is None else prices.find(item, zone[1])
    return Retained(
        kind=kind,
        name=str(handle).rpartition("/")[2],
        why=why,
        usd_per_month=None if price is None else price.usd * size_gib,
        # An image is billed by its content, which only Google measures.
        note=f"of {size_gib:.0f} GiB" + ("; no dated price" if price is None else ""),
    )
