"""Objects of the cluster, where a stack's state names them."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE
from lab.control_plane.api import Kind
from lab.engine.state import StackState, Stored


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


def refs_of(stored: Stored) -> tuple[ObjectRef, ...]:
    """The object of one resource; none for Google Cloud resources, components and Helm releases, whose objects are Helm's."""
    if not stored.custom or not stored.type.startswith("kubernetes:") or stored.type == RELEASE_TYPE:
        return ()
    namespace, _, name = stored.id.rpartition("/")
    return (ObjectRef(kind=kind_of(stored.type), name=name, namespace=namespace or None),)


def objects_of(state: StackState) -> tuple[ObjectRef, ...]:
    """A stack's objects in the cluster."""
    return tuple(ref for resource in state.resources for ref in refs_of(resource))
