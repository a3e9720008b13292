"""Checks the names and types of what a program passes to a component or a function, before their own code runs."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

from facts.finding import Finding, raise_refused
from facts.texts import nearest
from settings.sections.docstrings import field_docs
from settings.sections.refused import quoted

_Checked = TypeVar("_Checked", bound=Callable[..., Any])
_WORDS: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
}
_OUTPUT: Final = "another resource's output"
_EXAMPLES: Final = {
    "Output": 'pulumi.Config().require_secret("..."), or a SecretManagerSecret where it may be one',
    "Machine": 'find("g2-standard-12"), from facts.machines',
    "Placement": 'placement(Spot(mode="spot"), namespace="chat", machine=...), from settings.sections.capacity',
    "str": '"..."',
    "int": "1",
    "float": "1.0",
    "bool": "True",
}
"""What to write for a value of a type. Of other classes a value is made by their name."""


def checked(target: _Checked) -> _Checked:
    """A class of arguments, or a function, that refuses unknown, missing and wrong-typed arguments before its own code runs.

    Python by itself reports a wrong name as a TypeError, and a wrong type wherever the value is used first.
    """
    made: Callable[..., Any] = vars(target)["__init__"] if isinstance(target, type) else target
    known = [one for name, one in inspect.signature(made).parameters.items() if name != "self"]
    unnamed = int(isinstance(target, type))  # the object itself

    @functools.wraps(made)
    def call(*given: Any, **named: Any) -> Any:
        problems = list(_problems(target, known, given[unnamed:], named))
        if problems:
            raise_refused(problems)
        return made(*given, **named)

    if isinstance(target, type):
        cast(Any, target).__init__ = call
        return target
    return cast(_Checked, call)


def _problems(
    target: Any, known: Sequence[inspect.Parameter], given: Sequence[Any], named: Mapping[str, Any]
) -> Iterable[Finding]:
    parameters = {one.name: one for one in known}
    positional = [name for name, one in parameters.items() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    values = dict(zip(positional, given, strict=False)) | dict(named)
    docs = field_docs if isinstance(target, type) else lambda _: dict[str, str]()
    if len(given) > len(positional):
        yield Finding(
            id="positional-argument",
            subject=target.__name__,
            found=f"{len(given)} arguments without a name",
            allowed=f"{len(positional)}; the others by name: {', '.join(parameters)}",
            why="their order says nothing about their meaning",
            write=f"{target.__name__}({', '.join(f'{name}=...' for name in parameters)})",
        )
    for name in values.keys() - parameters.keys():
        near = nearest(name, parameters)
        yield Finding(
            id="unknown-argument",
            subject=f"{target.__name__}.{name}",
            found=f"a value of type {type(values[name]).__name__}",
            allowed=", ".join(parameters),
            why=f"there is no such argument{f'; did you mean {near}?' if near else ''}",
            write=f"{near}=..." if near else f"one of the arguments above, or remove {name}",
        )
    hints = hints_of(target)
    for name, parameter in parameters.items():
        if name not in values and parameter.default is inspect.Parameter.empty:
            yield Finding(
                id="missing-argument",
                subject=f"{target.__name__}.{name}",
                found=None,
                allowed=in_words(hints[name]),
                why=docs(target).get(name, "required; there is no default"),
                write=f"{name}={_example(hints[name])}",
            )
        elif name in values and not fits(values[name], hints[name]):
            value = values[name]
            # A text in the place of a secret's Output is the secret.
            hidden = not _is_data(value) or (isinstance(value, str) and "Output" in str(hints[name]))
            yield Finding(
                id="wrong-argument",
                subject=f"{target.__name__}.{name}",
                found=f"a value of type {type(value).__name__}" if hidden else quoted(value),
                allowed=in_words(hints[name]),
                why=docs(target).get(name, "a value of another type fails later, where it is used"),
                write=f"{name}={_example(hints[name]) if hidden else _corrected(value, hints[name])}",
            )


@functools.cache
def hints_of(target: Any) -> Mapping[str, Any]:
    """The type of each argument; Any where the module that defines it is not imported."""
    names = {"pulumi": sys.modules.get("pulumi")}
    hints: dict[str, Any] = {}
    for base in reversed(target.__mro__) if isinstance(target, type) else [target]:
        scope = names | vars(sys.modules[base.__module__])
        for name, hint in inspect.get_annotations(base).items():
            try:
                hints[name] = eval(hint, scope) if isinstance(hint, str) else hint  # noqa: S307 - this repository's own annotations
            except (NameError, AttributeError):
                hints[name] = Any
    return hints


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type. What an Output will hold is not known yet, so any Output fits where one may stand."""
    origin, members = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if isinstance(hint, ForwardRef):  # `Output` within pulumi.Input
        return "Output" in {base.__name__ for base in type(value).__mro__}
    if origin is Annotated:
        return fits(value, members[0])
    if origin in (Union, UnionType):
        return any(fits(value, member) for member in members)
    if origin is Literal:
        return value in members
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    if hint is None:
        return value is None
    if origin is tuple:
        inner = members[:1] * len(value) if isinstance(value, tuple) and members[-1:] == (...,) else members
        return isinstance(value, tuple) and len(inner) == len(value) and all(map(fits, value, inner))
    kind = dict if is_typeddict(hint) else origin or hint
    if not isinstance(kind, type):
        return True
    if not isinstance(value, kind) or (isinstance(value, str | bytes) and origin is not None):
        return False  # a text is a sequence of texts, and never meant as one
    if isinstance(value, Mapping) and members:
        return all(fits(key, members[0]) and fits(item, members[1]) for key, item in value.items())
    if members and isinstance(value, list | tuple | set | frozenset):
        return all(fits(item, members[0]) for item in value)
    return True


def in_words(hint: Any) -> str:
    """A type, for a person."""
    origin, members = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return in_words(members[0])
    if origin in (Union, UnionType):
        return ", or ".join(dict.fromkeys(in_words(member) for member in members))
    if origin is Literal:
        return ", ".join(map(repr, members))
    if hint in _WORDS:
        return _WORDS[hint]
    if isinstance(hint, ForwardRef):
        return _OUTPUT
    kind = dict if is_typeddict(hint) else origin or hint
    if not isinstance(kind, type):
        return "a value"
    if kind.__name__ in ("Output", "Awaitable"):
        return _OUTPUT
    if issubclass(kind, Mapping):
        return f"a mapping of texts to {_many(members[1:])}"
    if origin is not None and issubclass(kind, Iterable):
        return f"a list of {_many(members)}"
    module = kind.__module__
    return f"a {kind.__name__} of {module.replace('.', '/')}.py" if "." in module else f"a {kind.__name__}"


def _many(members: Sequence[Any]) -> str:
    return f"items, each {in_words(members[0])}" if members else "items"


def _example(hint: Any) -> str:
    origin, members = get_origin(hint), get_args(hint)
    if origin is Literal:
        return repr(members[0])
    if origin in (Annotated, Union, UnionType):
        return _example(members[0])
    kind = dict if is_typeddict(hint) else origin or hint
    if not isinstance(kind, type):
        return "..."
    if kind.__name__ in _EXAMPLES:
        return _EXAMPLES[kind.__name__]
    if issubclass(kind, Mapping):
        return '{"...": ...}'
    if issubclass(kind, Iterable) and members:
        return f"[{_example(members[0])}]"
    return f"{kind.__name__}(...)"


def _corrected(value: Any, hint: Any) -> str:
    """The given value in the form that is allowed where it is clear what was meant, else an example."""
    for candidate in ([value], (value,)) if not isinstance(value, list | tuple) else (tuple(value),):
        if fits(candidate, hint) and _is_data(value):
            return repr(candidate)
    if isinstance(value, str):
        with_number = re.fullmatch(r"-?[0-9]+", value.strip())
        if with_number and fits(int(value), hint):
            return value.strip()
        if value.lower() in ("true", "false") and fits(True, hint):
            return value.capitalize()
    if isinstance(value, int | float) and fits(str(value), hint):
        return f'"{value}"'
    return _example(hint)


def _is_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_data(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    return isinstance(value, str | int | float | NoneType)
