"""A stack's state, as `pulumi stack export` prints it.

Source of the format: pulumi/pulumi, sdk/go/common/apitype/core.go (DeploymentV3, ResourceV3, OperationV2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.engine.events import name_of, type_of

_SECRET_MARK: Final = ("4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270")
"""Key and value that mark an encrypted secret. Source: pulumi/pulumi, sdk/go/common/resource/sig/sig.go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One resource of a state."""

    urn: str
    id: str
    """Of its provider; empty for a component."""
    custom: bool
    """Whether a provider manages it; false for a component."""
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    """Both with `[secret]` for secrets."""
    parent: str
    provider: str
    """URN and id of its provider, joined by "::"."""
    dependencies: tuple[str, ...]
    property_dependencies: Mapping[str, tuple[str, ...]]
    protect: bool
    retain_on_delete: bool
    deleting: bool
    """Whether its replacement exists and it still has to go."""

    @property
    def type(self) -> str:
        """Type token."""
        return type_of(self.urn)

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return name_of(self.urn)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """A stack's resources in the engine's order, and operations that a killed update left open."""

    resources: tuple[Stored, ...]
    pending: Mapping[str, str]
    """URN -> creating, updating, deleting or reading."""

    def get(self, urn: str) -> Stored | None:
        """The resource, or None."""
        return next((resource for resource in self.resources if resource.urn == urn and not resource.deleting), None)

    def of_type(self, type_: str) -> tuple[Stored, ...]:
        """Resources of a type."""
        return tuple(resource for resource in self.resources if resource.type == type_)

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The stack's own outputs."""
        return next((resource.outputs for resource in self.of_type("pulumi:pulumi:Stack")), {})


def parsed(document: Mapping[str, Any]) -> StackState:
    """The content of an export."""
    deployment = document["deployment"]
    return StackState(
        resources=tuple(map(_stored, deployment.get("resources") or ())),
        pending={
            operation["resource"]["urn"]: operation["type"] for operation in deployment.get("pending_operations") or ()
        },
    )


def _stored(one: Mapping[str, Any]) -> Stored:
    return Stored(
        urn=one["urn"],
        id=one.get("id", ""),
        custom=one["custom"],
        inputs=hidden(one.get("inputs") or {}),
        outputs=hidden(one.get("outputs") or {}),
        parent=one.get("parent", ""),
        provider=one.get("provider", ""),
        dependencies=tuple(one.get("dependencies") or ()),
        property_dependencies={
            key: tuple(value or ()) for key, value in (one.get("propertyDependencies") or {}).items()
        },
        protect=one.get("protect", False),
        retain_on_delete=one.get("retainOnDelete", False),
        deleting=one.get("delete", False),
    )


def hidden(value: Any) -> Any:
    """The value with `[secret]` in place of secrets."""
    if isinstance(value, Mapping):
        return "[secret]" if _SECRET_MARK in value.items() else {key: hidden(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hidden(one) for one in value]
    return value
