"""Zones of a pod's volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from lab.cloud.world import World
from lab.control_plane.api import Manifest

ZONE_KEYS: Final = frozenset({"topology.gke.io/zone", "topology.kubernetes.io/zone"})


def volume_zones(
    world: World, namespace: str, claims: Iterable[str], read_class: Callable[[str], Manifest | None]
) -> frozenset[str] | None:
    """Zones allowed by all of these claims; None if unrestricted."""
    zones: frozenset[str] | None = None
    for name in claims:
        claim = world.claims.get(name, namespace)
        own = None if claim is None else _claim_zones(world, claim, read_class)
        if own is not None:
            zones = own if zones is None else zones & own
    return zones


def _claim_zones(world: World, claim: Manifest, read_class: Callable[[str], Manifest | None]) -> frozenset[str] | None:
    volume = world.volumes.get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
        return _zones(term.get("matchExpressions") or () for term in required.get("nodeSelectorTerms") or ())
    class_name = claim["spec"].get("storageClassName")
    found = read_class(class_name) if class_name else None
    if found is None:
        return None
    return _zones(term.get("matchLabelExpressions") or () for term in found.get("allowedTopologies") or ())


def _zones(terms: Iterable[Iterable[Manifest]]) -> frozenset[str] | None:
    found = {value for term in terms for one in term if one["key"] in ZONE_KEYS for value in one.get("values") or ()}
    return frozenset(found) or None
