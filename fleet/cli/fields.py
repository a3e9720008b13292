"""Commands whose options are fields of dataclasses: an option is declared once, in what it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from math import isfinite
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

Command = Callable[..., int]


def with_fields(command: Command) -> Command:
    """Replace each dataclass among a command's parameters by its fields; the command gets the dataclass, filled.

    A field is `Annotated[TYPE, typer.Option(...)]`. Numbers must be finite.
    """
    hints = get_type_hints(command, include_extras=True)
    kinds: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind) and name != "return"}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in kinds:
            parameters += _parameters(kinds[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))
    flat = Signature(parameters)

    @wraps(command)
    def filled(**given: Any) -> int:
        bound = flat.bind(**given)
        bound.apply_defaults()
        values = bound.arguments
        for name, kind in kinds.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return command(**values)

    vars(filled)["__signature__"] = flat  # what typer reads
    filled.__annotations__ = {one.name: one.annotation for one in parameters}
    return filled


def _parameters(kind: Any) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=_annotation(hints[field.name]))


def _annotation(hint: Any) -> Any:
    """The field's own, with a check of numbers that have no other."""
    if get_origin(hint) is not Annotated:
        return hint
    type_, *told = get_args(hint)
    for place, info in enumerate(told):
        if isinstance(info, ParameterInfo) and float in (type_, *get_args(type_)):
            told[place] = info = copy(info)
            info.callback = info.callback or _finite
    return Annotated[(type_, *told)]


def _finite(value: float | None) -> float | None:
    """Reject `nan` and `inf`, which Python parses as numbers."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value
