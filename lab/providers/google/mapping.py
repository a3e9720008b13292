"""The reviewed table: how the inputs of pulumi-gcp become requests to Google's APIs. The table itself is mapping.yaml."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

TABLE: Final = Path(__file__).with_name("mapping.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """An input that the API calls otherwise."""

    to: str
    key: str = ""
    """The list becomes a map, keyed by this input of each item."""
    first: str = ""
    """Why only the first item of the list is sent; empty where all are."""
    converted: str = ""
    """How the provider changes the value; empty where it is sent as it is."""
    inferred: str = ""
    """Reason for an entry that was not verified in the provider's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """What a value must look like beyond its type, and who says so."""

    format: str = ""
    """A name in lab.providers.google.formats."""
    values: tuple[str, ...] = ()
    pattern: str = ""
    min: float | None = None
    max: float | None = None
    max_characters: int | None = None
    max_bytes: int | None = None
    says: str = ""
    """Words of the field's own description."""
    source: str = ""
    """Where else it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Inputs of which one must be given."""

    inputs: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Inputs that may not be given beside `field`."""

    field: str
    inputs: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """One Pulumi type: the request that creates it, and what that request calls the inputs."""

    read: tuple[str, ...]
    """What the entries were checked against."""
    document: str
    method: str
    inside: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Rename] = field(default_factory=dict)
    provider_only: Mapping[str, str] = field(default_factory=dict)
    unreviewed: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, ValueRule] = field(default_factory=dict)
    one_of: tuple[OneOf, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    named_if_absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The whole table."""

    reviewed: str
    types: Mapping[str, TypeMapping]
    services: Mapping[str, str]
    """APIs that can be enabled and have no description, with who names them."""
    roles: Mapping[str, str]
    """Predefined roles, each with its source."""
    everywhere: Mapping[str, str]
    """Inputs of many types that no request has, and why."""


@functools.cache
def table() -> Table:
    """The table, read once. Raises ValueError where it has a word that means nothing here."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    raw = yaml.load(TABLE.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - the safe one
    return parse(raw)


def parse(raw: Mapping[str, Any]) -> Table:
    """The table from its YAML."""
    everywhere = dict(raw["everywhere"])
    types = {name: _type_mapping(name, value, everywhere) for name, value in raw["types"].items()}
    return _made(Table, "mapping.yaml", {**raw, "types": types, "everywhere": everywhere})


def _type_mapping(name: str, raw: Mapping[str, Any], everywhere: Mapping[str, str]) -> TypeMapping:
    made = dict(raw)
    made["provider_only"] = {**everywhere, **raw.get("provider_only", {})}
    made["fields"] = {
        path: Rename(to=value) if isinstance(value, str) else _made(Rename, f"{name} fields.{path}", value)
        for path, value in raw.get("fields", {}).items()
    }
    made["values"] = {
        path: _made(ValueRule, f"{name} values.{path}", value) for path, value in raw.get("values", {}).items()
    }
    made["one_of"] = tuple(_made(OneOf, f"{name} one_of", one) for one in raw.get("one_of", ()))
    made["conflicts"] = tuple(_made(Conflict, f"{name} conflicts", conflict) for conflict in raw.get("conflicts", ()))
    return _made(TypeMapping, name, made)


_Made = TypeVar("_Made")


def _made(cls: type[_Made], where: str, raw: Mapping[str, Any]) -> _Made:
    known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
    if odd := sorted(raw.keys() - known):
        raise ValueError(f"{where}: {', '.join(odd)} means nothing here; known: {', '.join(sorted(known))}")
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()})
