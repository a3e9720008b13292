"""A recording as JSON text and back: how a recording made in another process arrives in this one.

Values keep the marks of Pulumi's own wire format: secrets and unknown values are signed as they are in a message.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from fleet.preview.record.recording import Alias, Diagnostic, RecordedResource, Recording
from fleet.preview.record.values import UNKNOWN, Secret, Value

# Pulumi's published markers, as in pulumi.runtime.rpc: written out, because importing that takes a third of a second.
SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker
UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

_VALUES: Final = ("inputs", "outputs")


def to_json(recording: Recording) -> str:
    """The recording as text. It holds secrets: keep it between processes."""
    document = {
        "project": recording.project,
        "stack": recording.stack,
        "mode": recording.mode,
        "resources": [_resource(resource) for resource in recording.resources],
        "outputs": signed(recording.outputs),
        "diagnostics": [dataclasses.asdict(diagnostic) for diagnostic in recording.diagnostics],
        "secrets": sorted(recording.secrets),
    }
    return json.dumps(document)


def from_json(text: str) -> Recording:
    """The recording that `to_json` wrote."""
    document = json.loads(text)
    return Recording(
        project=document["project"],
        stack=document["stack"],
        mode=document["mode"],
        resources=tuple(_resource_of(one) for one in document["resources"]),
        outputs=unsigned(document["outputs"]),
        diagnostics=tuple(Diagnostic(**one) for one in document["diagnostics"]),
        secrets=frozenset(document["secrets"]),
    )


def signed(value: Value) -> Any:
    """A value as JSON knows it, secrets and unknown values signed."""
    if value is UNKNOWN:
        return UNKNOWN_TEXT
    if isinstance(value, Secret):
        return {SIGNATURE: SECRET, "value": signed(value.value)}
    if isinstance(value, Mapping):
        return {str(key): signed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [signed(item) for item in value]
    return value


def unsigned(value: Any) -> Value:
    """The value behind `signed`."""
    if value == UNKNOWN_TEXT:
        return UNKNOWN
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return Secret(unsigned(value["value"]))
        return {key: unsigned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unsigned(item) for item in value]
    return value


def _resource(one: RecordedResource) -> dict[str, Any]:
    fields = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    fields |= {name: signed(fields[name]) for name in _VALUES}
    fields["aliases"] = [dataclasses.asdict(alias) for alias in one.aliases]
    return fields


def _resource_of(fields: dict[str, Any]) -> RecordedResource:
    values = {name: unsigned(fields[name]) for name in _VALUES}
    aliases = tuple(Alias(**alias) for alias in fields["aliases"])
    by_property = {name: tuple(urns) for name, urns in fields["property_dependencies"].items()}
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list) and name != "aliases"}
    return RecordedResource(**{**fields, **lists, **values, "aliases": aliases, "property_dependencies": by_property})
