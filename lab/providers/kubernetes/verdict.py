"""Verdicts of a wait: ready, failed, or still waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ready:
    """Pulumi continues with dependent resources."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not ready yet. `missing`: what it waits for."""

    missing: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Pulumi fails immediately, before the timeout."""

    reason: str


Verdict: TypeAlias = Ready | Waiting | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Other objects that a verdict needs; only those that its kind uses are set."""

    before: Manifest | None = None
    """The object before an update; None on create."""
    replica_sets: Sequence[Manifest] = ()
    """Owned by the object."""
    claims: Sequence[Manifest] = ()
    """Existing claims that the pod template mounts."""
    storage_class: Manifest | None = None
    """The claim's class, if it exists."""
    endpoint_slices: Sequence[Manifest] = ()
    settled: bool = True
    """Whether the endpoints have been unchanged for the provider's ten seconds."""


def condition(one: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """A condition of the status; empty if missing."""
    for item in (one.get("status") or {}).get("conditions") or ():
        if item.get("type") == type_:
            found: Mapping[str, Any] = item
            return found
    return {}


def holds(one: Mapping[str, Any], type_: str) -> bool:
    """Whether a condition of the status is "True"."""
    return condition(one, type_).get("status") == "True"


def format_condition(found: Mapping[str, Any]) -> str:
    """`[reason] message` of a condition."""
    reason, message = found.get("reason", ""), found.get("message", "")
    return f"[{reason}] {message}".strip() if reason or message else ""


def observed(one: Mapping[str, Any]) -> bool:
    """Whether the controller has observed the latest generation."""
    seen = (one.get("status") or {}).get("observedGeneration")
    return seen is not None and seen == one["metadata"].get("generation")
