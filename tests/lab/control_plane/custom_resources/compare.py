"""Is a definition of ours a subset of the real one? Whatever ours accepts, the real one must accept too.

Rules in CEL cannot be compared as text; the tests hold them against the real ones object by object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

LOWER_BOUNDS: Final = ("minimum", "minLength", "minItems", "minProperties")
UPPER_BOUNDS: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
EQUAL: Final = (
    "format",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
"""What must be said alike: how a value is read, and how server-side apply merges it."""
OPEN: Final = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
"""What would let anything through."""


def differences(ours: Schema, real: Schema) -> list[str]:
    """Where our CustomResourceDefinition is not a subset of the real one, each as a path and a reason; empty when it is."""
    return list(_definition(ours["spec"], real["spec"]))


def _definition(ours: Schema, real: Schema) -> Iterator[str]:
    for key in ("group", "scope"):
        if ours[key] != real[key]:
            yield f"{key} is {ours[key]}, the real one {real[key]}"
    names, real_names = ours["names"], real["names"]
    for key in ("kind", "listKind", "plural", "singular", "shortNames"):
        if names.get(key) != real_names.get(key):
            yield f"names.{key} is {names.get(key)}, the real one {real_names.get(key)}"
    real_versions = {version["name"]: version for version in real["versions"]}
    for version in ours["versions"]:
        name = version["name"]
        other = real_versions.get(name)
        if other is None or not other["served"]:
            yield f"version {name} is not served by the real one"
            continue
        if version["storage"] != other["storage"]:
            yield f"version {name}: storage is {version['storage']}, the real one {other['storage']}"
        if ("status" in version.get("subresources", {})) != ("status" in other.get("subresources", {})):
            yield f"version {name}: status is a subresource in only one of the two"
        yield from _schema(version["schema"]["openAPIV3Schema"], other["schema"]["openAPIV3Schema"], name)


def _schema(ours: Schema, real: Schema, path: str) -> Iterator[str]:
    if ours.get("type") != real.get("type"):
        yield f"{path}: type is {ours.get('type')}, the real one {real.get('type')}"
        return
    for key in OPEN:
        if ours.get(key):
            yield f"{path}: {key} lets anything through"
    for key in EQUAL:
        if ours.get(key) != real.get(key):
            yield f"{path}: {key} is {ours.get(key)}, the real one {real.get(key)}"
    if "default" in ours and ours["default"] != real.get("default"):
        yield f"{path}: default is {ours['default']}, the real one {real.get('default')}"
    yield from _values(ours, real, path)
    yield from _fields(ours, real, path)
    if "items" in ours:
        yield from _schema(ours["items"], real["items"], f"{path}[]")


def _values(ours: Schema, real: Schema, path: str) -> Iterator[str]:
    """The values that ours allows are a subset."""
    allowed = ours.get("enum")
    if allowed is not None:
        if "enum" in real and (more := sorted(set(allowed) - set(real["enum"]), key=str)):
            yield f"{path}: {', '.join(map(str, more))} is not a value of the real one"
        for value in allowed:
            if not _fits(value, real):
                yield f"{path}: {value!r} is outside the real one's pattern, length or range"
        return  # a list of values is bound by them alone
    if "enum" in real:
        yield f"{path}: any value, the real one has {', '.join(map(str, real['enum']))}"
    for key in LOWER_BOUNDS:
        if key in real and (key not in ours or ours[key] < real[key]):
            yield f"{path}: {key} is {ours.get(key)}, the real one {real[key]}"
    for key in UPPER_BOUNDS:
        if key in real and (key not in ours or ours[key] > real[key]):
            yield f"{path}: {key} is {ours.get(key)}, the real one {real[key]}"
    if "pattern" in real and ours.get("pattern") != real["pattern"]:
        yield f"{path}: pattern is {ours.get('pattern')}, the real one {real['pattern']}"


def _fits(value: str | int, real: Schema) -> bool:
    if isinstance(value, int):
        return bool(real.get("minimum", value) <= value <= real.get("maximum", value))
    if "pattern" in real and re.search(real["pattern"], value) is None:
        return False
    return bool(real.get("minLength", 0) <= len(value) <= real.get("maxLength", len(value)))


def _fields(ours: Schema, real: Schema, path: str) -> Iterator[str]:
    """The fields of an object or the values of a map."""
    known: Schema = real.get("properties", {})
    of_any_name = real.get("additionalProperties")
    required = set(ours.get("required", ()))
    for name in sorted(set(real.get("required", ())) - required):
        yield f"{path}.{name}: the real one requires it"
    for name, schema in ours.get("properties", {}).items():
        there = f"{path}.{name}"
        if name in known:
            yield from _schema(schema, known[name], there)
            if "default" in known[name] and "default" not in schema and name not in required:
                yield f"{there}: the real one fills in {known[name]['default']}; say so too or require the field"
        elif isinstance(of_any_name, Mapping):
            yield from _schema(schema, of_any_name, there)
        else:
            yield f"{there}: the real one has no such field"
    if "additionalProperties" in ours:
        if not isinstance(ours["additionalProperties"], Mapping) or not isinstance(of_any_name, Mapping):
            yield f"{path}: a map with any names, the real one is none"
        else:
            yield from _schema(ours["additionalProperties"], of_any_name, f"{path}{{}}")
