"""What waiting for an object comes down to: it is ready, it cannot become so, or there is something still missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ready:
    """Pulumi goes on with what depends on it."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet. `missing` says what for, in a few words."""

    missing: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Pulumi gives up at once, without waiting for the timeout."""

    reason: str


Verdict: TypeAlias = Ready | Waiting | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a verdict needs besides the object itself. Only what its kind looks at is filled in."""

    before: Manifest | None = None
    """The object as it was before an update; None when it is created."""
    replica_sets: Sequence[Manifest] = ()
    """Those that the object owns."""
    claims: Sequence[Manifest] = ()
    """Claims that the pod template mounts, as far as they exist."""
    storage_class: Manifest | None = None
    """The class that a claim names, if it exists."""
    endpoint_slices: Sequence[Manifest] = ()
    settled: bool = True
    """Whether the endpoints have not changed for the provider's ten seconds."""


def condition(one: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """A condition of the status; empty when the object does not have it."""
    for item in (one.get("status") or {}).get("conditions") or ():
        if item.get("type") == type_:
            found: Mapping[str, Any] = item
            return found
    return {}


def holds(one: Mapping[str, Any], type_: str) -> bool:
    """Whether a condition of the status is "True"."""
    return condition(one, type_).get("status") == "True"


def said(found: Mapping[str, Any]) -> str:
    """What a condition says of itself: `[reason] message`."""
    reason, message = found.get("reason", ""), found.get("message", "")
    return f"[{reason}] {message}".strip() if reason or message else ""


def observed(one: Mapping[str, Any]) -> bool:
    """Whether the object's controller has seen its latest generation."""
    seen = (one.get("status") or {}).get("observedGeneration")
    return seen is not None and seen == one["metadata"].get("generation")
