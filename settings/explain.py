"""Converts pydantic's errors to findings: the key's path, the value, what is allowed, the key's docstring, and the nearest name.

Import it only after an error: it reads the sections' source for their docstrings, which is slow.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from facts.finding import Finding, redacted
from facts.texts import nearest
from settings.problems import MOST_PROBLEMS, listed
from settings.sections.docstrings import field_docs
from settings.sections.section import NAMESPACE, PATTERN_TEXTS

_MOST_DETAILS = 4 * MOST_PROBLEMS
"""Errors of pydantic that are looked at: several can be one problem."""
_GCP_KEYS = {"project", "region"}
_TYPES: Final = {
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number without quotes",
    "bool_type": "true or false without quotes",
    "string_type": "text in quotes",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "none_required": "null",
}
_SIGNS: Final = {
    "greater_than_equal": (">=", "ge"),
    "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"),
    "less_than": ("<", "lt"),
}


def explain(error: ValidationError, root: type[BaseModel], at: str = NAMESPACE) -> list[Finding]:
    """One problem for each error of pydantic in a `root`.

    `at`: where the root is in a stack file, e.g. "vllm-fleet:server.engine", or the name of a class of a program.
    """
    problems: dict[tuple[str, str], Finding] = {}
    details = error.errors(include_url=False)[:_MOST_DETAILS]
    for detail in details:
        if detail["type"] == "too_short" and any(_is_inside(other, detail) for other in details):
            continue  # pydantic dropped the wrong items before it counted
        if detail["type"] == "default_factory_not_called":
            continue  # the default is derived from another key, which is wrong
        problem = _problem(detail, root, at)
        earlier = problems.setdefault((problem.subject, problem.id), problem)
        if problem.allowed not in earlier.allowed:  # each branch of a union reports what it accepts
            problems[problem.subject, problem.id] = replace(earlier, allowed=f"{earlier.allowed}, or {problem.allowed}")
    return list(problems.values())


def _is_inside(inner: ErrorDetails, outer: ErrorDetails) -> bool:
    return len(inner["loc"]) > len(outer["loc"]) and inner["loc"][: len(outer["loc"])] == outer["loc"]


def _problem(detail: ErrorDetails, root: type[BaseModel], at: str) -> Finding:
    in_file = at.startswith(NAMESPACE)
    place = _place_of(detail["loc"], root, in_file=in_file)
    kind, context = detail["type"], detail.get("ctx", {})
    path = _path(place.keys, at)
    # Redacted before it enters any text.
    given = redacted(path if in_file else f"section:{path}", listed(detail.get("input")))
    doc = "" if place.model is None else field_docs(place.model).get(place.field, "").rstrip(".")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        name, by_value = _branches(place.type_)
        word = given.get(name) if isinstance(given, dict) else given
        return Finding(
            id="missing-key" if word is None else "wrong-value",
            subject=f"{path}.{name}",
            found=word,
            allowed=" | ".join(by_value),
            why=f"required: the section's other keys depend on {name}",
            write=nearest(str(word), by_value) or "",
        )
    if kind == "extra_forbidden":
        names, name = _names(place.model or root, in_file=in_file), str(detail["loc"][-1])
        return Finding(
            id="unknown-key",
            subject=path,
            found=given if in_file else "given",
            allowed=", ".join(sorted(names)),
            why="unknown key",
            write=nearest(name if in_file else to_snake(name), names) or "one of these keys, or remove it",
        )
    if kind == "missing":
        return Finding(
            id="missing-key",
            subject=path,
            found=None,
            allowed=doc or "a value",
            why="required; there is no default",
        )
    near = context.get("near")
    if near is None and kind == "literal_error":
        near = nearest(str(given), _choices(context).split(", "))
    return Finding(
        id="wrong-value",
        subject=path,
        found=given if in_file or not isinstance(given, str) else f'"{given}"',
        allowed=_allowed(kind, context, detail["msg"]),
        why=doc or "not a valid value",
        write=near or "",
    )


def _path(keys: tuple[Any, ...], at: str) -> str:
    if at == NAMESPACE and keys and keys[0] in _GCP_KEYS:
        return f"gcp:{keys[0]}"
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in keys)
    return f"{at}:{text.removeprefix('.')}" if at == NAMESPACE else f"{at}{text}"


def _names(model: type[BaseModel], *, in_file: bool) -> list[str]:
    return [(in_file and info.alias) or name for name, info in model.model_fields.items()]


def _allowed(kind: str, context: dict[str, Any], message: str) -> str:
    """What pydantic would have accepted, for a person."""
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "literal_error":
        return _choices(context)
    if kind in _SIGNS:
        sign, name = _SIGNS[kind]
        bound = context[name]
        return f"{sign} {bound:g}" if isinstance(bound, float) else f"{sign} {bound}"
    if kind == "string_pattern_mismatch":
        return PATTERN_TEXTS[str(context.get("pattern"))]
    if kind == "too_short":
        return f"at least {context.get('min_length')} item(s)"
    if kind == "too_long":
        return f"at most {context.get('max_length')} item(s)"
    message = message.removeprefix("Value error, ")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]  # a variable's name stays uppercase


def _choices(context: dict[str, Any]) -> str:
    return str(context.get("expected", "")).replace(" or ", ", ").replace("'", "")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an error is, without what pydantic adds: a capacity mode, the branches of a union, "[key]"."""

    keys: tuple[Any, ...]
    """The keys to it, as the stack file or the program names them."""
    model: type[BaseModel] | None
    """Section of the last key."""
    field: str
    """Python name of the key in that section; empty for an unknown key."""
    type_: Any
    """Type of the value; None if unknown."""


def _place_of(location: tuple[Any, ...], root: type[BaseModel], *, in_file: bool) -> _Place:
    """The place of an error, resolved through the sections' types, because a key may be named like a mode or a type."""
    keys: list[Any] = []
    model: type[BaseModel] | None = None
    field = ""
    rest, type_ = list(location), cast(Any, root)
    while rest:
        members = [member for member in get_args(type_) if member is not type(None)]
        if get_origin(type_) is Annotated:
            type_ = members[0]
        elif get_origin(type_) in (Union, UnionType):
            # pydantic names the branch if there are several.
            type_ = members[0] if len(members) == 1 else _branches(type_)[1].get(rest.pop(0))
        elif fields := _fields_of(type_):
            key = rest.pop(0)
            field = next((name for name, info in fields.items() if key in (name, info.alias)), "")
            # An unknown key as it was typed: a program's name of a key is no key of the file.
            known = field and (not in_file or key == (fields[field].alias or field))
            keys.append(((in_file and fields[field].alias) or field) if known else key)
            model, type_ = type_, fields[field].annotation if field else None
        else:
            keys.append(rest.pop(0))
            type_ = members[-1 if get_origin(type_) is dict else 0] if members else None
            if rest == ["[key]"]:
                rest.clear()
    return _Place(tuple(keys), model, field, type_)


def _branches(type_: Any) -> tuple[str, dict[Any, type[BaseModel]]]:
    """The discriminating key of a union of sections, and each branch by its value."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    sections = [section for section in get_args(type_) if _fields_of(section)]
    for name in ("mode", "type"):
        if sections and all(name in _fields_of(section) for section in sections):
            return name, {get_args(_fields_of(section)[name].annotation)[0]: section for section in sections}
    return "", {}


def _fields_of(type_: Any) -> dict[str, FieldInfo]:
    """The fields of a section; none for another type."""
    return type_.model_fields if inspect.isclass(type_) and issubclass(type_, BaseModel) else {}
