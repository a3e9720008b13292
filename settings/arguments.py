"""Checks a component's arguments: the limits of the stack file's sections, and what contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NoReturn

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from facts.finding import Finding, raise_refused
from settings.sections.refused import of_section, quoted
from settings.sections.section import Section

_CAMEL: Final = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+)+\b")
_KEY: Final = re.compile(rf"({_CAMEL.pattern}): ")


def within_limits(args: object, section: type[Section], fields: Iterable[str]) -> None:
    """Check these fields of `args` against the section's fields of the same names. Raises ValueError with every wrong value."""
    try:
        section.model_validate({name: getattr(args, name) for name in fields})
    except ValidationError as error:
        raise_refused(of_section(error, section, type(args).__name__))


def refuse(args: object, problems: Iterable[Finding]) -> None:
    """Raise ValueError with all refusals, if any. A problem's subject is the name of a field of `args`; a stack file's names, such as
    `sizeGib`, become the program's.
    """
    refusals = [
        replace(
            problem,
            subject=f"{type(args).__name__}.{_CAMEL.sub(lambda found: to_snake(found[0]), problem.subject)}",
            write=_KEY.sub(lambda found: f"{to_snake(found[1])}=", problem.write),
        )
        for problem in problems
        if problem.severity == "error"
    ]
    if refusals:
        raise_refused(refusals)


def refuse_field(args: object, name: str, *, allowed: str, why: str, write: str, found: Any = "") -> NoReturn:
    """Raise ValueError for one field of `args`; `found` is its value unless it is given."""
    value = quoted(getattr(args, name)) if found == "" else found
    refuse(args, [Finding(id="wrong-argument", subject=name, found=value, allowed=allowed, why=why, write=write)])
    raise AssertionError("refuse raises for an error")
