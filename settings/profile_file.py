"""Reads settings/profiles.yaml as plain data and resolves bases, shared items and figures.

Without pydantic, so that `fleet plan` does not load it; `settings.profiles` validates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from facts import ledger
from facts.ledger import LedgerError
from facts.models import CATALOGUE

NAME = "settings/profiles.yaml"
"""The file, from the project's root."""

_INHERITED = frozenset({"model", "workload", "contextTokens", "concurrencyPerReplica", "engine"})
_OWN = frozenset({"over", "title", "versions", "reproduces", "assumptions", "differences"})
_KINDS: Mapping[type, str] = {dict: "mapping", list: "list"}
_T = TypeVar("_T")
_FIGURE = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}")


@cache
def document() -> Mapping[str, Any]:
    """The whole file. Raises LedgerError for invalid YAML."""
    return _of(dict, ledger.parse(Path(__file__).with_name("profiles.yaml")), "the file")


def names() -> tuple[str, ...]:
    """Every profile, in the order of the file."""
    return tuple(_section(document(), "profiles"))


def entry(name: str) -> dict[str, Any]:
    """The resolved profile with that name. Raises LedgerError."""
    return resolved(document(), name)


def resolved(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One profile of a file's content, with `name` and `modelId` added; `model` is None without a revision.

    Raises LedgerError with profile and key for an unknown profile, base, model, shared item, figure or key, and for circular bases.
    """
    profile: dict[str, Any] = {}
    for layer in _layers(file, name):
        inherited = {key: value for key, value in profile.items() if key in _INHERITED}
        profile = {**inherited, **layer, "engine": {**inherited.get("engine", {}), **layer["engine"]}}
    profile.pop("over", None)
    for key in ("title", "assumptions", "differences"):
        if key in profile:
            profile[key] = _with_figures(_with_shared(file, profile[key], f"{name}: {key}"), f"{name}: {key}")
    model = profile.get("model")
    if not isinstance(model, str) or model not in CATALOGUE:
        raise _wrong(f"{name}: model", f"{model!r} is not in the catalog (`fleet models`)")
    listed = CATALOGUE[model]
    pinned = {"id": model, "revision": listed.revision, "sizeGb": listed.size_gb} if listed.revision else None
    return {**profile, "name": name, "modelId": model, "model": pinned}


def _layers(file: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The profile and its bases, the lowest first."""
    profiles = _section(file, "profiles")
    layers = [_layer(profiles, name, "profiles")]
    passed = [name]
    while (base := layers[0].get("over")) is not None:
        where = f"{passed[-1]}: over"
        if base in passed:
            raise _wrong(where, f"a circle: {' over '.join([*passed, base])}")
        layers.insert(0, _layer(profiles, base, where))
        passed.append(base)
    return layers


def _layer(profiles: Mapping[str, Any], name: Any, where: str) -> Mapping[str, Any]:
    layer = _named(profiles, name, where, dict)
    unknown = sorted(str(key) for key in layer.keys() - _INHERITED - _OWN)
    if unknown:
        raise _wrong(f"{name}: {unknown[0]}", f"unknown key; allowed: {', '.join(sorted(_INHERITED | _OWN))}")
    return {**layer, "engine": _of(dict, layer.get("engine", {}), f"{name}: engine")}


def _with_shared(file: Mapping[str, Any], items: Any, where: str) -> Any:
    """Items with each `{shared: NAME}` replaced. A value that is not a list is left to the validation."""
    if not isinstance(items, list):
        return items
    replaced: list[Any] = []
    for item in items:
        if isinstance(item, dict) and item.keys() == {"shared"}:
            replaced += _named(_section(file, "shared"), item["shared"], where, list)
        else:
            replaced.append(item)
    return replaced


def _with_figures(value: Any, where: str) -> Any:
    """Every `{file.row.field}` in the texts of a value replaced by the ledger's number."""
    if isinstance(value, list):
        return [_with_figures(item, where) for item in value]
    if isinstance(value, dict):
        return {key: _with_figures(item, where) for key, item in value.items()}
    if not isinstance(value, str) or "{" not in value:
        return value

    def figure(match: re.Match[str]) -> str:
        try:
            file, row, field, *within = match[1].split(".")
            figure: Any = ledger.entry(file, "figures", row)
            for key in (field, *within):
                figure = figure[key]
            return format(figure, match[2] or "")
        except (LookupError, TypeError, ValueError) as error:
            raise _wrong(where, f"{match[0]} is not a figure of the ledger, or not of that format ({error})") from error

    return _FIGURE.sub(figure, value)


def _section(file: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _of(dict, file.get(name), name)


def _named(entries: Mapping[str, Any], name: Any, where: str, kind: type[_T]) -> _T:
    if not isinstance(name, str) or name not in entries:
        raise _wrong(where, f"{name!r} does not exist; allowed: {', '.join(entries)}")
    return _of(kind, entries[name], name)


def _of(kind: type[_T], value: Any, where: str) -> _T:
    if not isinstance(value, kind):
        raise _wrong(where, f"must be a {_KINDS[kind]}, got {value!r}")
    return value


def _wrong(where: str, what: str) -> LedgerError:
    return LedgerError(f"{NAME}, {where}: {what}")
