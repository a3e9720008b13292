"""Structural differences between two values, by property path.

Many Kubernetes lists are keyed: containers by name, ports by number and protocol, mounts by path. A list is
compared by such keys if every element has a unique one, otherwise by position. Unequal values
have at least one difference, equal ones none; a secret equals its plain value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from fleet.preview.compare.changes import PropertyChangeKind
from fleet.preview.record.values import UNKNOWN, Secret, Value, reveal


@dataclass(frozen=True, slots=True)
class Element:
    """A step into a list."""

    label: str
    """The element's key or position."""
    index: int
    """Position in the new list, or in the old one if removed."""


Step: TypeAlias = str | Element
Path: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference with values as recorded; not redacted."""

    path: Path
    kind: PropertyChangeKind
    before: Value
    after: Value

    @property
    def hidden(self) -> bool:
        """Whether either side is a secret."""
        return isinstance(self.before, Secret) or isinstance(self.after, Secret)


def differences(old: Value, new: Value, path: Path = ()) -> Iterator[Difference]:
    """All differences, maps in key order."""
    if old is new:
        return
    if isinstance(old, Secret) or isinstance(new, Secret):
        yield from _secrets(old, new, path)
    elif old is UNKNOWN or new is UNKNOWN:
        yield Difference(path=path, kind="may change", before=old, after=new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _maps(old, new, path)
    elif _is_list(old) and _is_list(new):
        yield from _lists(old, new, path)
    elif not _equal(old, new):
        yield Difference(path=path, kind="changed", before=old, after=new)


def unknown_paths(value: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Every path with an unknown value, and that value (`UNKNOWN`, or a secret of it)."""
    if value is UNKNOWN or (isinstance(value, Secret) and _has_unknown(value.value)):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from unknown_paths(item, (*path, str(key)))
    elif _is_list(value):
        keys = _keys(value, path)
        for index, item in enumerate(value):
            yield from unknown_paths(item, (*path, Element(keys[index] if keys else str(index), index)))


def path_text(path: Path) -> str:
    """The formatted path: `spec.template.spec.containers[vllm].image`."""
    text = ""
    for step in path:
        if isinstance(step, Element):
            text += f"[{step.label}]"
        elif re.fullmatch(r"[\w$-]+", step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def touches(difference: Difference, pattern: str) -> bool:
    """Whether the difference is at, below or above the property path `pattern`, such as `spec.ports[*].port`.

    Above counts if the added or removed value contains the property: `spec` added with a `spec.selector`.
    """
    tokens = _tokens(pattern)
    for step, token in zip(difference.path, tokens, strict=False):
        if not _step_matches(step, token):
            return False
    below = tokens[len(difference.path) :]
    return not below or _has_any((difference.before, difference.after), below)


_TOKENS: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\*|\d+)\]|([^.\[\]]+)')


def _tokens(pattern: str) -> list[str]:
    return [quoted or index or plain for quoted, index, plain in _TOKENS.findall(pattern)]


def _step_matches(step: Step, token: str) -> bool:
    if token == "*":  # noqa: S105 - a wildcard
        return True
    return token == (str(step.index) if isinstance(step, Element) else step)


def _has_any(values: Sequence[Value], tokens: Sequence[str]) -> bool:
    """Whether any of the values, or one of their elements, has the property."""
    if not tokens:
        return any(value is not None for value in values)
    token, *rest = tokens
    found: list[Value] = []
    for value in map(reveal, values):
        if isinstance(value, Mapping):
            found += value.values() if token == "*" else [value[token]] if token in value else []  # noqa: S105
        elif _is_list(value):
            found += [item for index, item in enumerate(value) if token in ("*", str(index))]
    return bool(found) and _has_any(found, rest)


def _secrets(old: Value, new: Value, path: Path) -> Iterator[Difference]:
    before, after = reveal(old), reveal(new)
    if _equal(before, after):
        return
    kind: PropertyChangeKind = "may change" if _has_unknown(before) or _has_unknown(after) else "changed"
    # The mark stays on both sides: a value that was secret before must not be shown.
    yield Difference(path=path, kind=kind, before=Secret(before), after=Secret(after))


def _maps(old: Mapping[str, Value], new: Mapping[str, Value], path: Path) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys(), key=str):
        yield from _present(old.get(key), new.get(key), (*path, str(key)))


def _present(old: Value, new: Value, path: Path) -> Iterator[Difference]:
    """As `differences`, None counting as absent."""
    if old is None and new is not None:
        yield Difference(path=path, kind="added", before=None, after=new)
    elif new is None and old is not None:
        yield Difference(path=path, kind="removed", before=old, after=None)
    else:
        yield from differences(old, new, path)


def _lists(old: Sequence[Value], new: Sequence[Value], path: Path) -> Iterator[Difference]:
    old_keys, new_keys = _keys_of_both(old, new, path)
    if not old_keys or not new_keys:
        for index in range(max(len(old), len(new))):
            step = Element(str(index), index)
            if index >= len(old):
                yield Difference(path=(*path, step), kind="added", before=None, after=new[index])
            elif index >= len(new):
                yield Difference(path=(*path, step), kind="removed", before=old[index], after=None)
            else:
                yield from differences(old[index], new[index], (*path, step))
        return
    before = {key: old[index] for index, key in enumerate(old_keys)}
    found = False
    for index, key in enumerate(new_keys):
        step = Element(key, index)
        if key not in before:
            found = True
            yield Difference(path=(*path, step), kind="added", before=None, after=new[index])
        else:
            for difference in differences(before[key], new[index], (*path, step)):
                found = True
                yield difference
    for index, key in enumerate(old_keys):
        if key not in new_keys:
            found = True
            yield Difference(path=(*path, Element(key, index)), kind="removed", before=old[index], after=None)
    if not found and old_keys != new_keys:  # only the order changed, which the API server treats as a change
        yield Difference(path=path, kind="changed", before=list(old_keys), after=list(new_keys))


_Key: TypeAlias = Callable[[Any], str | None]


def _by(*names: str, **defaults: str) -> _Key:
    def key(element: Any) -> str | None:
        values = [element.get(name, defaults.get(name)) for name in names]
        plain = all(isinstance(value, (str, int)) and not isinstance(value, bool) for value in values)
        return "/".join(map(str, values)) if plain else None

    return key


def _toleration(element: Any) -> str | None:
    parts = [element.get(name) for name in ("key", "operator", "value", "effect")]
    return " ".join(str(part) for part in parts if part is not None) or None


def _rule(element: Any) -> str | None:
    """A recording or an alert of Prometheus: both can stand in one group."""
    name = element.get("record") or element.get("alert")
    return name if isinstance(name, str) else None


_NAMED_LISTS: Final[Mapping[str, tuple[_Key, ...]]] = {
    "ports": (
        _by("containerPort", "protocol", protocol="TCP"),
        _by("port", "protocol", protocol="TCP"),
        _by("name"),
    ),
    "volumeMounts": (_by("mountPath"),),
    "volumeDevices": (_by("devicePath"),),
    "tolerations": (_toleration,),
    "matchExpressions": (_by("key"),),
    "topologySpreadConstraints": (_by("topologyKey", "whenUnsatisfiable"),),
    "hostAliases": (_by("ip"),),
    "rules": (_rule,),
    "secondaryIpRanges": (_by("rangeName"),),
    "cidrBlocks": (_by("cidrBlock"),),
}
"""Keys of lists whose elements are not identified by name, by property."""
_USUAL: Final = (_by("name"), _by("id"))
_LONGEST_LABEL: Final = 60
"""Longest text used as its own key in a list. Assumed: a longer one is a script or a document."""


def _keys_of_both(old: Sequence[Value], new: Sequence[Value], path: Path) -> tuple[list[str], list[str]]:
    """Keys for the elements of both lists by one rule; empty if no rule fits both."""
    if not old or not new:
        only = old or new
        return [], (_keys(only, path) or [])
    for rule in _rules(path):
        if (old_keys := _unique(rule, old)) and (new_keys := _unique(rule, new)):
            return old_keys, new_keys
    return [], []


def _keys(elements: Sequence[Value], path: Path) -> list[str] | None:
    return next((keys for rule in _rules(path) if (keys := _unique(rule, elements))), None)


def _rules(path: Path) -> Iterator[Callable[[Sequence[Value]], list[str | None]]]:
    name = path[-1] if path and isinstance(path[-1], str) else ""
    for key in (*_NAMED_LISTS.get(name, ()), *_USUAL):
        yield partial(_of_maps, key)
    if name == "args":
        yield _flags
    elif name != "command":
        yield _themselves


def _of_maps(key: _Key, elements: Sequence[Value]) -> list[str | None]:
    return [key(element) if isinstance(element, Mapping) else None for element in elements]


def _unique(rule: Callable[[Sequence[Value]], list[str | None]], elements: Sequence[Value]) -> list[str] | None:
    keys = [key for key in rule(elements) if key is not None]
    return keys if len(keys) == len(elements) == len(set(keys)) else None


def _flags(elements: Sequence[Value]) -> list[str | None]:
    """Arguments by flag: `--port=8000` by `--port`, the word after a bare flag by that flag, others by position."""
    keys: list[str | None] = []
    bare = ""
    for index, element in enumerate(elements):
        if not isinstance(element, str):
            return [None] * len(elements)
        if element.startswith("-"):
            flag, equals, _ = element.partition("=")
            keys.append(flag)
            bare = "" if equals else flag
        else:
            keys.append(f"{bare} value" if bare else str(index))
            bare = ""
    return keys


def _themselves(elements: Sequence[Value]) -> list[str | None]:
    """Short texts and numbers are their own keys."""
    return [
        str(element)
        if isinstance(element, (str, int)) and not isinstance(element, bool) and len(str(element)) <= _LONGEST_LABEL
        else None
        for element in elements
    ]


def _is_list(value: Value) -> bool:
    return isinstance(value, (list, tuple))


def _has_unknown(value: Value) -> bool:
    return next(unknown_paths(value), None) is not None


def _equal(old: Value, new: Value) -> bool:
    """Like `==`, but true differs from 1, None in a map means absent, and a tuple equals a list."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return all(_equal(old.get(key), new.get(key)) for key in old.keys() | new.keys())
    if _is_list(old) and _is_list(new):
        return len(old) == len(new) and all(map(_equal, old, new))
    return bool(old == new)
