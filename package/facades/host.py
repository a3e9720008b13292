"""The provider that the engine asks: Pulumi's own for Python components, with clear refusals of wrong inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pulumi
from pulumi.errors import InputPropertiesError, InputPropertyError
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.analyzer import ComponentDefinition, PropertyDefinition, PropertyType
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from facades.capacity_ladder import CapacityLadder
from facades.inputs import PACKAGE, require_text
from facades.model_weights import ModelWeights
from facades.vllm_fleet import VllmFleet
from facades.vllm_server import VllmServer
from facts.redact import Redactor, plaintexts_in
from facts.secrets_in_text import without_secrets
from facts.texts import nearest

VERSION = "0.1.0"
"""Of the package; that of pyproject.toml."""
_LONGEST = 80


class _Kind(NamedTuple):
    words: str
    holds: Callable[[Any], bool]


_KINDS: Mapping[PropertyType, _Kind] = {
    PropertyType.STRING: _Kind("a text", lambda value: isinstance(value, str)),
    PropertyType.INTEGER: _Kind(
        "a whole number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    ),
    PropertyType.ARRAY: _Kind("a list", lambda value: isinstance(value, list)),
}
"""Kinds that settings would not name by the input. On the wire every number is a float: whether one is whole is judged with its value."""


class Host(ComponentProvider):
    """Serves the four facades.

    `component_provider_host` would serve the same schema, but drop an unknown input and print a traceback with a refusal.
    """

    def __init__(self) -> None:
        super().__init__([VllmFleet, ModelWeights, VllmServer, CapacityLadder], PACKAGE, version=VERSION)

    def map_inputs(self, inputs: pulumi.Inputs, component_def: ComponentDefinition) -> pulumi.Inputs:
        """The inputs by their Python names. Raises InputPropertyError for one that is unknown, of another kind, or not yet known."""
        known = component_def.inputs
        for name, value in inputs.items():
            if name not in known:
                near = nearest(name, known)
                meant = f"did you mean {near}?" if near else f"allowed: {', '.join(sorted(known))}"
                raise InputPropertyError(name, f"unknown input; {meant}")
            kind = known[name]
            if kind.plain and not _is_plain(value):
                raise _wrong(
                    name,
                    kind,
                    value,
                    "a value known before the deployment: neither a secret nor another resource's output",
                )
            if kind.type is PropertyType.STRING and not kind.plain and not isinstance(value, pulumi.Output):
                require_text(name, value)
            shape = _KINDS.get(kind.type) if kind.type else None
            if shape and kind.plain and not shape.holds(value):
                raise _wrong(name, kind, value, shape.words)
            if kind.ref is not None and (members := self._members(kind.ref)) and value not in members:
                raise _wrong(name, kind, value, ", ".join(members))
        for name, kind in known.items():
            if not kind.optional and inputs.get(name) is None:
                shape = _KINDS.get(kind.type) if kind.type else None
                words = shape.words if shape else "a value"
                allowed = ", ".join(self._members(kind.ref)) if kind.ref else words
                raise InputPropertyError(name, f"is missing; allowed: {allowed}; why: {kind.description or 'required'}")
        return super().map_inputs(inputs, component_def)

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Make a component. Raises InputPropertiesError where its inputs cannot be used. No error carries a secret of the inputs."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except Exception as error:
            inner = error.inner if isinstance(error, ComponentInitError) else error
            raise _redacted(inner, Redactor(plaintexts_in([inputs], any_name=True))) from None

    def _members(self, ref: str) -> list[str]:
        definition = self._type_defs.get(ref.rpartition(":")[2])
        return [str(member.value) for member in definition.enum or ()] if definition else []


def _wrong(name: str, kind: PropertyDefinition, value: Any, allowed: str) -> InputPropertyError:
    """The error for an input of a wrong kind, in the order of every finding."""
    shown = f"{_quoted(value)} is not allowed; " if _is_plain(value) else ""
    return InputPropertyError(
        name, f"{shown}allowed: {allowed}; why: {kind.description or 'the component needs it so'}"
    )


def _redacted(error: Exception, redactor: Redactor) -> Exception:
    """The error without secrets, in its message and in the paths of inputs: a token may be pasted as a key."""
    if isinstance(error, InputPropertyError):
        return InputPropertyError(redactor.text(error.property_path), redactor.text(error.reason))
    if isinstance(error, InputPropertiesError):
        return InputPropertiesError(redactor.text(error.message), redactor.whole(error.errors))
    text = redactor.text(str(error))
    hidden = error if text == str(error) else RuntimeError(f"{type(error).__name__}: {text}")
    return ComponentInitError(hidden.with_traceback(error.__traceback__))


def _quoted(value: Any) -> str:
    text = without_secrets(repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
