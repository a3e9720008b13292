"""A request held against its API's description: names, shapes, types, enum values, formats, patterns, required fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fleet.preview.record.values import UNKNOWN
from lab.providers.google.complaint import Complaint, listed, shown
from lab.providers.google.documents import Field, Method
from lab.providers.google.formats import described, integer
from lab.providers.google.mapping import TypeMapping
from lab.providers.google.request import Key, Node, Request, Step, api_path, names_in

_TABLE = "lab/providers/google/mapping.yaml"


def check_request(request: Request, method: Method, mapping: TypeMapping) -> Iterator[Complaint]:
    """Everything about the request that its description does not allow."""
    for name, value in request.parameters.items():
        yield from _parameter(name, value, method, mapping)
    for one in request.unreviewed:
        yield Complaint(
            path=one.shown,
            what=f"nothing here can check it: {mapping.unreviewed[one.path]}",
            source=_TABLE,
        )
    if method.body is not None:
        yield from _Checker(method, mapping).node(request.body, method.body, ())


def _parameter(name: str, value: str | bool | None, method: Method, mapping: TypeMapping) -> Iterator[Complaint]:
    if value is None:
        return  # not given, so the provider's own project or region stands there, or not known yet
    one = method.parameters[name]
    wrong = "something" if value == "" else _wrong_scalar(value, one)
    pattern = one.raw.get("pattern")
    if wrong is None and pattern and isinstance(value, str) and not re.fullmatch(pattern, value):
        wrong = f"something that matches {pattern}"
    if wrong:
        inputs = sorted(names_in(mapping) & set(re.findall(r"\w+", mapping.parameters[name])))
        yield Complaint(
            path=", ".join(inputs),
            what=f"makes {shown(value)} of the URL; allowed: {wrong}",
            source=one.source,
        )


class _Checker:
    """Walks a request and its description side by side."""

    def __init__(self, method: Method, mapping: TypeMapping) -> None:
        self.method = method
        self.mapping = mapping
        self.named = {api_path(mapping, path): path for path in mapping.fields}
        self.invented = {api_path(mapping, path) for path in mapping.named_if_absent}

    def node(self, node: Node, field: Field, cursor: tuple[Step, ...]) -> Iterator[Complaint]:
        """What is wrong with this place in the request, and below it."""
        if field.output_only and node.path:
            yield Complaint(
                path=node.path,
                what=f"is set to {_value(node)}, but the API alone fills this field",
                source=field.source,
            )
            return
        if field.deprecated and node.path:
            yield Complaint(
                path=node.path,
                what=f"is deprecated in the API: {field.description or 'no reason is given'}",
                source=field.source,
            )
        if node.converted or field.type == "any" or node.value is UNKNOWN:
            return
        if node.kind == "fields":
            yield from self._object(node, field, cursor)
        elif node.kind == "list":
            if field.type != "array":
                yield _shape(node, field, "a list")
                return
            item = field.item()
            for step, below in node.below.items():
                yield from self.node(below, item, (*cursor, step))
        else:
            yield from _scalar(node, field)

    def _object(self, node: Node, field: Field, cursor: tuple[Step, ...]) -> Iterator[Complaint]:
        if field.type != "object":
            yield _shape(node, field, "an object")
            return
        for step, below in node.below.items():
            name = step.name if isinstance(step, Key) else str(step)
            found = field.field(name)
            if found is None:
                yield self._unknown(below, field, cursor)
            else:
                yield from self.node(below, found, (*cursor, step))
        for name, value in field.fields().items():
            at = ".".join((*_plain(cursor), name))
            if name not in node.below and value.required_by(self.method.id) and at not in self.invented:
                yield Complaint(
                    path=self._input_for(node, at, name),
                    what="is missing, and the API refuses the request without it",
                    source=value.source,
                )

    def _unknown(self, node: Node, field: Field, cursor: tuple[Step, ...]) -> Complaint:
        above = ".".join(_plain(cursor))
        known = {self.named.get(f"{above}.{one}", one).rpartition(".")[2] for one in field.fields()}
        return Complaint(
            path=node.path,
            what=f"the API has no such field; there are {listed(sorted(known))}. If it calls the input otherwise, add that to {_TABLE}",
            source=f"{field.document.label}, {field.schema.get('id', field.label)}",
        )

    def _input_for(self, node: Node, at: str, name: str) -> str:
        if at in self.named:
            return self.named[at]
        return f"{node.shown}.{name}" if node.shown else name


def _scalar(node: Node, field: Field) -> Iterator[Complaint]:
    value = node.value
    wrong = _wrong_scalar(value, field)
    if wrong is not None:
        yield Complaint(
            path=node.path,
            what=f"{_value(node)} is not allowed; allowed: {wrong}",
            source=field.source,
        )
        return
    pattern = field.schema.get("pattern")
    if pattern and isinstance(value, str) and not re.fullmatch(pattern, value):
        yield Complaint(
            path=node.path,
            what=f"{_value(node)} does not match {pattern}",
            source=field.source,
        )
    enum, old = field.schema.get("enum", ()), field.schema.get("enumDeprecated", ())
    if value in enum and old and old[enum.index(value)]:
        yield Complaint(
            path=node.path,
            what=f"the value {_value(node)} is deprecated in the API",
            source=field.source,
        )


def _wrong_scalar(value: Any, field: Field) -> str | None:
    """What would be allowed instead of a value of the wrong type, enum or format; None if it is right."""
    kind, form = field.type, str(field.schema.get("format", ""))
    if kind == "boolean":
        return None if isinstance(value, bool) else "true or false"
    if kind == "integer" or form in ("int64", "uint64"):
        return integer(value, form or "int64")
    if kind == "number":
        return None if isinstance(value, (int, float)) and not isinstance(value, bool) else "a number"
    if kind != "string":
        return {"array": "a list", "object": "an object"}.get(kind)
    if not isinstance(value, str):
        return "text"
    enum = field.schema.get("enum")
    if enum is not None:
        return None if value in enum else f"one of {', '.join(enum)}"
    return described(form, value)


def _shape(node: Node, field: Field, given: str) -> Complaint:
    wanted = {"array": "a list", "object": "an object"}.get(field.type, f"one {field.type}")
    return Complaint(
        path=node.path,
        what=f"{given} is given where the API takes {wanted}",
        source=field.source,
    )


def _value(node: Node) -> str:
    return shown(node.value, secret=node.secret) if node.kind == "value" else "a block of its own"


def _plain(cursor: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple("*" if isinstance(step, Key) else step for step in cursor if not isinstance(step, int))
