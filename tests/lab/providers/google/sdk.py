"""What the installed pulumi-gcp says of itself: which classes infra/ makes, and which inputs each of them takes."""

from __future__ import annotations

import ast
import collections.abc
import functools
import importlib
import inspect
import sys
import typing
from pathlib import Path
from typing import Any

import pulumi
from pulumi import _types as sdk_types

INFRA = Path(__file__).resolve().parents[4] / "infra"


@functools.cache
def classes_in_infra() -> dict[str, type]:
    """Every resource class of pulumi_gcp that a module of infra/ calls, by its Pulumi type."""
    found: dict[str, type] = {}
    for path in sorted(INFRA.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = _names_of_the_sdk(tree)
        for node in ast.walk(tree):
            dotted = _dotted(node.func).split(".") if isinstance(node, ast.Call) else [""]
            if dotted[0] not in names:
                continue
            *modules, name = [*names[dotted[0]], *dotted[1:]]
            made = getattr(importlib.import_module(".".join(modules)), name)
            if inspect.isclass(made) and issubclass(made, pulumi.CustomResource):
                found[made.pulumi_type] = made  # type: ignore[attr-defined]
    return found


def _names_of_the_sdk(tree: ast.Module) -> dict[str, list[str]]:
    """What a module calls pulumi_gcp and its parts."""
    names: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pulumi_gcp":
            names |= {name.asname or name.name: [*str(node.module).split("."), name.name] for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {name.asname or name.name: [name.name] for name in node.names if name.name == "pulumi_gcp"}
    return names


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@functools.cache
def inputs_of_class(made: type) -> dict[str, str]:
    """Every input path of a resource class, and what it holds: text, number, boolean, object, list or map."""
    args = getattr(sys.modules[made.__module__], f"{made.__name__}Args")
    return dict(_walk(args, ""))


_WORDS = {"str": "text", "int": "number", "float": "number", "bool": "boolean"}


def _walk(args: type, prefix: str) -> collections.abc.Iterator[tuple[str, str]]:
    module = vars(sys.modules[args.__module__])
    hints = typing.get_type_hints(args.__init__, {**vars(pulumi), **module, "T": typing.TypeVar("T")})
    for python, name in sdk_types.input_type_py_to_pulumi_names(args).items():
        path = f"{prefix}{name}"
        kind, inner = _kind(hints[python])
        yield path, kind
        if inner is not None:
            yield from _walk(inner, f"{path}.")


def _kind(hint: Any) -> tuple[str, type | None]:
    """What a hint comes down to, and the class of what is inside; `Input[T]` is T or something that becomes one."""
    if inspect.isclass(hint) and sdk_types.is_input_type(hint):
        return "object", hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is collections.abc.Sequence:
        return "list", _kind(arguments[0])[1]
    if origin is collections.abc.Mapping:
        return "map", _kind(arguments[1])[1]
    if arguments:
        plain = [
            argument
            for argument in arguments
            if typing.get_origin(argument) not in (collections.abc.Awaitable, pulumi.Output)
        ]
        kinds = [_kind(one) for one in plain if one is not type(None) and not isinstance(one, (str, typing.ForwardRef))]
        objects = [kind for kind in kinds if kind[0] == "object"]
        return (objects or kinds)[0]
    return _WORDS[hint.__name__], None
