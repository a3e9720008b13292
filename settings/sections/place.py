"""Where in a section pydantic found an error."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Place:
    """Where an error is, without what pydantic adds: a capacity mode, the branches of a union, "[key]"."""

    keys: tuple[Any, ...]
    """In the stack file's keys."""
    names: tuple[Any, ...]
    """In a program's names."""
    model: type[BaseModel] | None = None
    """Section of the last key."""
    field: str = ""
    """Python name of the key in that section; empty for an unknown key."""
    type_: Any = None
    """Type of the value; None if unknown."""


def place_of(location: tuple[Any, ...], root: type[BaseModel]) -> Place:
    """The place of an error, resolved through the sections' types, because a key may be named like a mode or a type."""
    keys: list[Any] = []
    names: list[Any] = []
    model: type[BaseModel] | None = None
    field = ""
    rest, type_ = list(location), cast(Any, root)
    while rest:
        members = [member for member in get_args(type_) if member is not type(None)]
        if get_origin(type_) is Annotated:
            type_ = members[0]
        elif get_origin(type_) in (Union, UnionType):
            # pydantic names the branch if there are several.
            type_ = members[0] if len(members) == 1 else branches(type_)[1].get(rest.pop(0))
        elif fields_of(type_):
            key = rest.pop(0)
            field_name = next((name for name, info in fields_of(type_).items() if key in (name, info.alias)), "")
            keys.append(fields_of(type_)[field_name].alias or key if field_name else key)
            names.append(field_name or key)
            model, field, type_ = type_, field_name, fields_of(type_)[field_name].annotation if field_name else None
        else:
            keys.append(rest[0])
            names.append(rest.pop(0))
            type_ = members[-1 if get_origin(type_) is dict else 0] if members else None
            if rest == ["[key]"]:
                rest.clear()
    return Place(tuple(keys), tuple(names), model, field, type_)


def branches(type_: Any) -> tuple[str, dict[Any, type[BaseModel]]]:
    """The discriminating key of a union of sections, and each branch by its value."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    sections = [section for section in get_args(type_) if fields_of(section)]
    for name in ("mode", "type"):
        if sections and all(name in fields_of(section) for section in sections):
            return name, {get_args(fields_of(section)[name].annotation)[0]: section for section in sections}
    return "", {}


def fields_of(type_: Any) -> dict[str, FieldInfo]:
    """The fields of a section; none for another type."""
    return type_.model_fields if inspect.isclass(type_) and issubclass(type_, BaseModel) else {}
