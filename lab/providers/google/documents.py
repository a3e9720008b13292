"""Google's own descriptions of its APIs, from the copies that google-api-python-client carries. Nothing is downloaded.

A description ("discovery document") is JSON: schemas with types, enum values, formats and patterns, and the methods that
take them. The package's client is never imported, only its files are read: compute, the largest, takes 40 ms.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = "googleapiclient"
_OUTPUT_ONLY: Final = re.compile(r"\s*(\[?Output only\]?|Server-determined)", re.IGNORECASE)
_REQUIRED: Final = re.compile(r"\s*Required\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request, as its description has it."""

    document: Document
    raw: Mapping[str, Any]
    """The field's own attributes: read-only, deprecated, description."""
    schema: Mapping[str, Any]
    """What it holds, references followed."""
    label: str
    """Its name for a reader: `Subnetwork.purpose`."""

    @property
    def output_only(self) -> bool:
        """Whether the API alone fills it."""
        return bool(self.raw.get("readOnly")) or _OUTPUT_ONLY.match(self.description) is not None

    @property
    def deprecated(self) -> bool:
        """Whether the API wants to be rid of it."""
        return bool(self.raw.get("deprecated"))

    @property
    def description(self) -> str:
        """What the API says of it, on one line."""
        return " ".join(str(self.raw.get("description", "")).split())

    @property
    def type(self) -> str:
        """JSON type: string, integer, number, boolean, object, array or any."""
        return str(self.schema.get("type", "any"))

    @property
    def source(self) -> str:
        """Where a reader can look it up."""
        return f"{self.document.label}, {self.label}"

    def required_by(self, method: str) -> bool:
        """Whether the method refuses a request without it."""
        return method in self.raw.get("annotations", {}).get("required", ()) or bool(_REQUIRED.match(self.description))

    def fields(self) -> dict[str, Field]:
        """The fields of an object, by name; empty for a map and for what is no object."""
        return {name: self._below(raw, name) for name, raw in self.schema.get("properties", {}).items()}

    def field(self, name: str) -> Field | None:
        """The field of this name; in a map, every name has one."""
        raw = self.schema.get("properties", {}).get(name)
        if raw is not None:
            return self._below(raw, name)
        values = self.schema.get("additionalProperties")
        return None if values is None else self._below(values, "*")

    def item(self) -> Field:
        """What the elements of an array are."""
        return self._below(self.schema["items"], "")

    def at(self, path: str) -> Field | None:
        """The field at a dotted path, through arrays; `*` is any key of a map."""
        found: Field | None = self
        for name in path.replace("[]", "").split("."):
            while found is not None and found.type == "array":
                found = found.item()
            found = None if found is None else found.field(name)
        return found

    def _below(self, raw: Mapping[str, Any], name: str) -> Field:
        schema = self.document.follow(raw)
        owner = str(self.schema.get("id", self.label))
        return Field(self.document, raw, schema, f"{owner}.{name}" if name else self.label)


@dataclass(frozen=True, slots=True)
class Method:
    """One call of an API."""

    id: str
    body: Field | None
    """What it takes; None if it takes no body."""
    parameters: Mapping[str, Field]
    """What its URL takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One API's description."""

    name: str
    """E.g. `compute.beta`."""
    content: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """Its date, as Google writes it: `20261106`."""
        return str(self.content["revision"])

    @property
    def label(self) -> str:
        """Name and revision, for a reader."""
        return f"{self.name} revision {self.revision}"

    def schema(self, name: str) -> Field:
        """One schema. Raises KeyError if there is none of that name."""
        raw = self.content["schemas"][name]
        return Field(self, raw, raw, name)

    def method(self, id_: str) -> Method:
        """The method of this id, such as `compute.networks.insert`. Raises KeyError if there is none."""
        _, *resources, name = id_.split(".")
        at: Mapping[str, Any] = self.content
        for resource in resources:
            at = at["resources"][resource]
        found = at["methods"][name]
        request = found.get("request")
        return Method(
            id=str(found["id"]),
            body=None if request is None else self.schema(request["$ref"]),
            parameters={
                key: Field(self, raw, raw, f"{id_}, {key}") for key, raw in found.get("parameters", {}).items()
            },
        )

    def follow(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema that a field has or refers to."""
        while "$ref" in raw:
            raw = self.content["schemas"][raw["$ref"]]
        return raw


@functools.cache
def document(name: str) -> Document:
    """The description of this name, read once. Raises FileNotFoundError where the package lacks it."""
    return Document(name, json.loads((_folder() / f"{name}.json").read_bytes()))


@functools.cache
def described_services() -> frozenset[str]:
    """Names of every API that has a description, such as `container.googleapis.com`."""
    return frozenset(f"{path.name.split('.')[0]}.googleapis.com" for path in _folder().glob("*.json"))


@functools.cache
def _folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    return Path(spec.origin).parent / "discovery_cache" / "documents"
