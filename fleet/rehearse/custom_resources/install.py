"""Puts the definitions on a cluster and waits until every kind is served: the part of the platform that GKE preinstalls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.rehearse.api import CUSTOM_RESOURCE_DEFINITION, ApiRefusedError, ClusterApi, Manifest
from fleet.rehearse.custom_resources.definitions import definitions
from fleet.rehearse.results import RehearsalError
from fleet.rehearse.simulation.world import condition

FIELD_MANAGER: Final = "gke-platform-stand-in"
"""The definitions are the platform's: what Pulumi applies must never find itself the owner of one."""
TIMEOUT_SECONDS: Final = 30.0
"""Longest wait for all kinds, wall time. Measured: 0.9 s on two cores, 2 s with other work on them."""
POLL_SECONDS: Final = 0.02
WORKERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What was put on the cluster."""

    names: tuple[str, ...]
    """E.g. "gateways.gateway.networking.k8s.io", sorted."""
    wall_seconds: float


def install(api: ClusterApi, module_folders: Mapping[str, Path]) -> Installed:
    """Apply every definition and return when all kinds are served. Doing it again changes nothing.

    `module_folders` says where the Go modules of `definitions.REAL` were unpacked. Raises RehearsalError when a definition
    is refused or not served in time.
    """
    return install_definitions(api, definitions(module_folders))


def install_definitions(api: ClusterApi, manifests: Sequence[Manifest]) -> Installed:
    """The same for chosen definitions."""
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="definitions") as pool:
        # The largest first: the API server needs longest for it.
        list(pool.map(lambda manifest: _apply(api, manifest), sorted(manifests, key=_size, reverse=True)))
    _wait_until_served(api, manifests)
    names = tuple(sorted(manifest["metadata"]["name"] for manifest in manifests))
    return Installed(names=names, wall_seconds=time.monotonic() - began)


def _apply(api: ClusterApi, manifest: Manifest) -> None:
    try:
        api.apply(manifest, field_manager=FIELD_MANAGER, force=True)
    except ApiRefusedError as refusal:
        name = manifest["metadata"]["name"]
        raise RehearsalError(f"the API server refuses the definition {name}: {refusal.message}") from refusal


def _size(manifest: Manifest) -> int:
    return len(str(manifest))


def _wait_until_served(api: ClusterApi, manifests: Sequence[Manifest]) -> None:
    """Discovery lists a kind once its definition is Established, in a few bytes; the definitions themselves are a megabyte."""
    waiting = {(group_version, plural) for manifest in manifests for group_version, plural in _kinds(manifest)}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        for group_version in {one for one, _ in waiting}:
            served = _served(api, group_version)
            waiting = {
                (version, plural) for version, plural in waiting if version != group_version or plural not in served
            }
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise RehearsalError(
                _why_not(api, {f"{plural}.{version.partition('/')[0]}" for version, plural in waiting})
            )
        time.sleep(POLL_SECONDS)


def _kinds(manifest: Manifest) -> list[tuple[str, str]]:
    spec = manifest["spec"]
    plural = spec["names"]["plural"]
    return [(f"{spec['group']}/{version['name']}", plural) for version in spec["versions"] if version["served"]]


def _served(api: ClusterApi, group_version: str) -> frozenset[str]:
    try:
        answer = api.raw("GET", f"/apis/{group_version}")
    except ApiRefusedError as refusal:
        if refusal.status in (404, 503):
            return frozenset()
        raise
    return frozenset(one["name"] for one in answer.get("resources") or ())


def _why_not(api: ClusterApi, names: set[str]) -> str:
    reasons = []
    for name in sorted(names):
        definition = api.get(CUSTOM_RESOURCE_DEFINITION, name)
        if definition is None:
            reasons.append(f"{name} is gone")
            continue
        conditions = definition.get("status", {}).get("conditions") or ()
        said = [one.get("message", "") for one in conditions if one["status"] != "True"]
        established = condition(definition, "Established") or "not said"
        reasons.append(f"{name}: Established is {established}. {', '.join(filter(None, said))}".strip())
    return (
        f"after {TIMEOUT_SECONDS:.0f} s the API server does not serve every kind that GKE has: {'; '.join(reasons)}. "
        "Another definition of the same names on this cluster is the usual reason; use a cluster without them"
    )
