"""Decides whether a change updates or replaces a resource, with the evidence.

The rules are data: fleet/preview/compare/data/replacement.yaml, transcribed, each with its source. Other types get guesses, marked as such.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.preview.compare.changes import Certainty, ReplaceReason
from fleet.preview.compare.structural_diff import Difference, path_text, touches
from fleet.preview.record.values import Secret, Value, reveal
from settings import strict_yaml
from settings.problems import SettingsError

DATA: Final = Path(__file__).parent / "data" / "replacement.yaml"
KUBERNETES_PROVIDER: Final = "pulumi:providers:kubernetes"
_KUBERNETES: Final = "kubernetes:"
_IDENTIFIER: Final = "clusterIdentifier"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One property whose change replaces."""

    pattern: str
    certainty: Certainty
    source: str
    unless_wider: bool = False
    """Does not replace if the new address range contains the old one."""


def reasons(
    type_: str, found: Sequence[Difference], replace_on_changes: Iterable[str] = ()
) -> tuple[ReplaceReason, ...]:
    """Reasons why these differences replace a resource of the type, most certain first; empty if they do not."""
    given: dict[str, ReplaceReason] = {}
    rules = (*rules_of(type_), *(_Rule(pattern, "the program", "replace_on_changes") for pattern in replace_on_changes))
    for rule in rules:
        for one in found:
            if not touches(one, rule.pattern) or (rule.unless_wider and _is_wider(one.before, one.after)):
                continue
            maybe: bool | None = one.kind == "may change"
            if type_ == KUBERNETES_PROVIDER and not maybe:
                maybe = _may_be_another_cluster(one)
            if maybe is not None:
                path = path_text(one.path)
                reason = ReplaceReason(path=path, certainty=rule.certainty, source=rule.source, maybe=maybe)
                given.setdefault(path, reason)
    return tuple(sorted(given.values(), key=lambda one: (one.maybe, one.certainty == "guess", one.path)))


def decisive(
    type_: str, old: Mapping[str, Any], new: Mapping[str, Any], found: Sequence[Difference]
) -> Sequence[Difference]:
    """The differences that can replace a resource of the type. A Kubernetes provider with a clusterIdentifier before and after
    is replaced only if that changes. Source: pulumi-kubernetes, provider/pkg/provider/provider.go, DiffConfig.
    """
    if type_ == KUBERNETES_PROVIDER and old.get(_IDENTIFIER) and new.get(_IDENTIFIER):
        return [one for one in found if one.path[:1] == (_IDENTIFIER,)]
    return found


def rules_of(type_: str) -> tuple[_Rule, ...]:
    """What replaces a resource of the type."""
    loaded = _load()
    if type_ in loaded.types:
        return loaded.types[type_]
    # An unlisted kind: identity fields replace; the API server decides about the rest.
    return loaded.every_object if type_.startswith(_KUBERNETES) else loaded.guesses


def _may_be_another_cluster(one: Difference) -> bool | None:
    """Whether another cluster is reached: True if only likely, False if certain, None if it is the same.

    A kubeconfig may change (a user, a token) and still reach the same cluster; its provider is then not replaced.
    """
    path = path_text(one.path)
    if one.kind in ("added", "removed"):
        return None  # the ambient kubeconfig, which pulumi-kubernetes does not compare
    if path != "kubeconfig":
        return path != _IDENTIFIER
    before, after = _clusters(one.before), _clusters(one.after)
    if before is None or after is None:
        return True
    return None if before == after else False


def _clusters(kubeconfig: Value) -> Value:
    try:
        document = strict_yaml.load(str(reveal(kubeconfig)).encode(), name="kubeconfig", stack="")
    except SettingsError:
        return None
    return document.get("clusters") if isinstance(document, Mapping) else None


def _is_wider(before: Value, after: Value) -> bool:
    try:
        old, new = ipaddress.ip_network(str(before)), ipaddress.ip_network(str(after))
    except ValueError:
        return False
    return old.version == new.version and old.subnet_of(new)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Loaded:
    types: Mapping[str, tuple[_Rule, ...]]
    every_object: tuple[_Rule, ...]
    guesses: tuple[_Rule, ...]


@functools.cache
def _load() -> _Loaded:
    written = _read()
    types: dict[str, list[_Rule]] = {}
    google = written["google"]
    for type_, known in google["types"].items():
        source = f"{google['source']}, {known['file']}"
        _add(types, type_, known["properties"], "provider source", source)
        _add(types, type_, known.get("unless_wider", ()), "provider source", source, unless_wider=True)
        _add(types, type_, known.get("documented", ()), "provider documentation", google["documentation"])
    ours, server = written["pulumi_kubernetes"], written["kubernetes"]
    for type_, properties in ours["types"].items():
        _add(types, type_, properties, "pulumi-kubernetes provider", ours["source"])
    for type_, properties in server["types"].items():
        _add(types, type_, properties, "Kubernetes immutable field", server["source"])
    every_object: list[_Rule] = []
    for pattern in ours["every_object"]:
        every_object.append(_Rule(pattern, "pulumi-kubernetes provider", ours["source"]))
    for type_, rules in types.items():
        if type_.startswith(_KUBERNETES):
            rules.extend(every_object)
    guesses = tuple(
        _Rule(name, "guess", f"no rule for this type; {name} can rarely be changed in place")
        for name in written["guesses"]
    )
    return _Loaded({type_: tuple(rules) for type_, rules in types.items()}, tuple(every_object), guesses)


def _add(
    types: dict[str, list[_Rule]],
    type_: str,
    properties: Iterable[str],
    certainty: Certainty,
    source: str,
    *,
    unless_wider: bool = False,
) -> None:
    rules = types.setdefault(type_, [])
    rules.extend(_Rule(pattern, certainty, source, unless_wider) for pattern in properties)


def _read() -> dict[str, Any]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load(DATA.read_text(encoding="utf-8"), Loader=loader))  # noqa: S506 - the safe one


def deletes_first(type_: str, old: Mapping[str, Any], new: Mapping[str, Any], asked: bool | None) -> bool:
    """Whether a replace deletes the old resource first: by option, or because both have the same name."""
    if asked is not None:
        return asked
    if type_.startswith(_KUBERNETES):
        return _name_of(old) is not None and _name_of(old) == _name_of(new)
    return type_.startswith("gcp:") and isinstance(old.get("name"), str) and old.get("name") == new.get("name")


def _name_of(inputs: Mapping[str, Any]) -> tuple[str, str] | None:
    metadata = inputs.get("metadata")
    metadata = metadata.value if isinstance(metadata, Secret) else metadata
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        return None
    namespace = metadata.get("namespace", "default")
    return str(metadata["name"]), namespace if isinstance(namespace, str) else ""
