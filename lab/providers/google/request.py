"""The request that the provider would send for a resource, made from the program's inputs by the reviewed table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fleet.preview.record.values import Secret
from lab.providers.google.mapping import Rename, TypeMapping

PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_NO_RENAME: Final = Rename(to="")


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a map in the request, as against the name of a field."""

    name: str


Step = str | int | Key
"""The name of a field, the index of a list, or the key of a map."""


@dataclass(slots=True)
class Node:
    """One place in the request's body, and the input that put it there."""

    kind: Literal["fields", "list", "value"]
    shown: str = ""
    """The input's path with its indexes; empty where only something inside comes from an input."""
    value: Any = None
    secret: bool = False
    converted: bool = False
    """The provider sends another value than the program gave."""
    below: dict[Step, Node] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """A path to show: the node's own, else of the first thing inside."""
        return self.shown or next((one.path for one in self.below.values()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input, wherever it stands."""

    path: str
    """Without indexes, as the table names it."""
    shown: str
    """With indexes."""
    value: Any
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What would be sent."""

    body: Node
    parameters: Mapping[str, str | bool | None]
    """The URL's parameters; None where an input is not given or not known yet."""
    unreviewed: tuple[Input, ...]
    """Inputs that the table leaves out on purpose."""


def inputs_of(value: Any, path: str = "", shown: str = "", *, secret: bool = False) -> Iterator[Input]:
    """Every input below a value, containers first; a list stands for its elements."""
    if isinstance(value, Secret):
        value, secret = value.value, True
    if value is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from inputs_of(item, path, f"{shown}[{index}]", secret=secret)
        return
    if path:
        yield Input(path=path, shown=shown, value=value, secret=secret)
    if isinstance(value, Mapping):
        for name, item in value.items():
            at = (f"{path}.{name}", f"{shown}.{name}") if path else (name, name)
            yield from inputs_of(item, *at, secret=secret)


def names_in(mapping: TypeMapping) -> set[str]:
    """Inputs that are part of the URL."""
    return {name for template in mapping.parameters.values() for name in PLACEHOLDER.findall(template)}


def api_path(mapping: TypeMapping, path: str) -> str:
    """Where in the request's body an input lands, without indexes: by the table, else under its parent by its own name."""
    return ".".join(_plain(_cursor(mapping, path)))


def build(mapping: TypeMapping, inputs: Mapping[str, Any]) -> Request:
    """The request for these inputs."""
    builder = _Builder(mapping)
    for name, value in inputs.items():
        if name not in names_in(mapping):
            builder.visit(value, name, name, builder.inside, secret=False)
    return Request(
        body=builder.body,
        parameters={name: _filled(template, inputs) for name, template in mapping.parameters.items()},
        unreviewed=tuple(builder.unreviewed),
    )


class _Builder:
    """Puts inputs where the request has them."""

    def __init__(self, mapping: TypeMapping) -> None:
        self.mapping = mapping
        self.inside = _steps(mapping.inside)
        self.body = Node("fields")
        self.unreviewed: list[Input] = []

    def visit(self, value: Any, path: str, shown: str, parent: tuple[Step, ...], *, secret: bool) -> None:
        """Place an input, whose parent is at `parent`, and all below it."""
        if isinstance(value, Secret):
            value, secret = value.value, True
        if value is None or path in self.mapping.provider_only:
            return
        if path in self.mapping.unreviewed:
            self.unreviewed.append(Input(path=path, shown=shown, value=value, secret=secret))
            return
        rename = self.mapping.fields.get(path, _NO_RENAME)
        cursor = _moved(self.mapping, parent, path)
        if rename.converted:
            self._put(cursor, Node("value", shown, value, secret, converted=True))
        elif isinstance(value, list):
            self._list(value, path, shown, cursor, rename, secret=secret)
        else:
            self._item(value, path, shown, cursor, secret=secret)

    def _list(
        self, items: list[Any], path: str, shown: str, cursor: tuple[Step, ...], rename: Rename, *, secret: bool
    ) -> None:
        if not rename.first:
            self._put(cursor, Node("fields" if rename.key else "list", shown, secret=secret))
        for index, item in enumerate(items[:1] if rename.first else items):
            step: tuple[Step, ...] = (index,)
            if rename.first:
                step = ()
            elif rename.key:
                step = (Key(str(item.get(rename.key, index)) if isinstance(item, Mapping) else str(index)),)
            self._item(item, path, f"{shown}[{index}]", (*cursor, *step), secret=secret)

    def _item(self, value: Any, path: str, shown: str, cursor: tuple[Step, ...], *, secret: bool) -> None:
        if isinstance(value, Secret):
            value, secret = value.value, True
        if isinstance(value, Mapping):
            # Only where something stays: an object whose fields all move elsewhere is never sent.
            if not value or any(self._stays(f"{path}.{name}", cursor) for name in value):
                self._put(cursor, Node("fields", shown, secret=secret))
            for name, item in value.items():
                self.visit(item, f"{path}.{name}", f"{shown}.{name}", cursor, secret=secret)
        elif isinstance(value, list):
            self._put(cursor, Node("list", shown, secret=secret))
            for index, item in enumerate(value):
                self._item(item, path, f"{shown}[{index}]", (*cursor, index), secret=secret)
        elif value is not None:
            self._put(cursor, Node("value", shown, value, secret))

    def _stays(self, path: str, parent: tuple[Step, ...]) -> bool:
        if path in self.mapping.provider_only or path in self.mapping.unreviewed:
            return False
        return _moved(self.mapping, parent, path)[: len(parent)] == parent

    def _put(self, cursor: tuple[Step, ...], node: Node) -> None:
        at = self.body
        for step, following in itertools.pairwise(cursor):
            at = at.below.setdefault(step, Node("list" if isinstance(following, int) else "fields"))
        there = at.below.get(cursor[-1])
        if there is not None and there.below and node.kind != "value":
            there.shown = there.shown or node.shown
        else:
            at.below[cursor[-1]] = node


def _moved(mapping: TypeMapping, parent: tuple[Step, ...], path: str) -> tuple[Step, ...]:
    """Where an input lands whose parent is at `parent`: indexes and keys of the parent are kept while both go the same way."""
    rename = mapping.fields.get(path)
    if rename is None:
        return (*parent, path.rpartition(".")[2])
    target = _steps(rename.to[1:]) if rename.to.startswith("/") else (*_steps(mapping.inside), *_steps(rename.to))
    above, wanted = _plain(parent), _plain(target)
    if wanted[: len(above)] != above:
        return target
    same = 0
    for count, step in enumerate(target):
        if isinstance(step, int):
            continue  # the parent has the index of its own list
        if same == len(above):
            return (*parent, *target[count:])
        same += 1
    return parent


def _cursor(mapping: TypeMapping, path: str) -> tuple[Step, ...]:
    cursor = _steps(mapping.inside)
    for count in range(1, path.count(".") + 2):
        part = ".".join(path.split(".")[:count])
        cursor = _moved(mapping, cursor, part)
        if mapping.fields.get(part, _NO_RENAME).key:
            cursor = (*cursor, Key("*"))
    return cursor


def _steps(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    for part in filter(None, path.split(".")):
        name = part.removesuffix("[]")
        steps.append(Key("*") if name == "*" else name)
        if name != part:
            steps.append(0)
    return tuple(steps)


def _plain(cursor: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple("*" if isinstance(step, Key) else step for step in cursor if not isinstance(step, int))


def _filled(template: str, inputs: Mapping[str, Any]) -> str | bool | None:
    names = PLACEHOLDER.findall(template)
    given = {name: _opened(inputs.get(name)) for name in names}
    if len(names) == 1 and template == f"{{{names[0]}}}" and isinstance(given[names[0]], bool):
        return bool(given[names[0]])
    if not all(isinstance(one, str) for one in given.values()):
        return None
    return PLACEHOLDER.sub(lambda found: str(given[found[1]]), template)


def _opened(value: Any) -> Any:
    return value.value if isinstance(value, Secret) else value
