"""Objects of the cluster, and where a stack's state names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE
from lab.control_plane.api import Kind
from lab.engine.state import StackState, Stored

RELEASED: Final = "__objects"
"""Output of a Helm release: its objects in the order of installation, which the real provider's `resourceNames` lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """Reference to an object in the cluster."""

    kind: Kind
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def kind_of(type_: str) -> Kind:
    """The kind of a Pulumi type such as `kubernetes:apps/v1:Deployment`."""
    _, version, kind = type_.split(":")
    return Kind(version.removeprefix("core/"), kind)


def ref_of_id(type_: str, id_: str) -> ObjectRef:
    """The object of a resource's id, `namespace/name`."""
    namespace, _, name = id_.rpartition("/")
    return ObjectRef(kind=kind_of(type_), name=name, namespace=namespace or None)


def released_texts(refs: Iterable[ObjectRef]) -> list[str]:
    """Objects of a release as its outputs have them."""
    return [f"{ref.kind.api_version} {ref.kind.kind} {ref.namespace or ''}/{ref.name}" for ref in refs]


def released_refs(outputs: Mapping[str, Any]) -> tuple[ObjectRef, ...]:
    """Objects of a release, from its outputs."""
    found = []
    for text in outputs.get(RELEASED) or ():
        api_version, kind, path = text.split(" ")
        namespace, _, name = path.partition("/")
        found.append(ObjectRef(kind=Kind(api_version, kind), name=name, namespace=namespace or None))
    return tuple(found)


def refs_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """Objects of one resource: one, those of a chart, or none for Google Cloud resources and components."""
    if not stored.custom or not stored.type.startswith("kubernetes:"):
        return ()
    return released_refs(stored.outputs) if stored.type == RELEASE_TYPE else (ref_of_id(stored.type, stored.id),)


def objects_of(state: StackState) -> tuple[ObjectRef, ...]:
    """A stack's objects in the cluster."""
    return tuple(ref for resource in state.resources for ref in refs_of(resource))
