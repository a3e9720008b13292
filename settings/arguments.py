"""How a component's arguments hold their plain values against the limits of the stack file, each written once, there."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from settings.problems import Problem
from settings.sections.section import Section


def within_limits(args: object, section: type[Section], *, prefix: str = "", only: Iterable[str] | None = None) -> None:
    """Holds the fields of `args` that are called `prefix` and a field of `section` against that field's limits, or `only` those of
    these names.

    Raises ValueError with every value that is outside.
    """
    names = {field: f"{prefix}{field}" for field in only or section.model_fields}
    try:
        section.model_validate({field: getattr(args, name) for field, name in names.items() if hasattr(args, name)})
    except ValidationError as error:
        raise ValueError(
            "\n".join(
                f"{type(args).__name__}.{names[str(one['loc'][0])]} is {one['input']!r}; allowed: {one['msg']}"
                for one in error.errors(include_url=False)
            )
        ) from None


def refuse(args: object, problems: Iterable[Problem]) -> None:
    """Raises ValueError with every problem, if there is one; a problem's path is the name of a field of `args`."""
    found = [
        f"{type(args).__name__}.{one.path} is {one.value!r}; allowed: {one.allowed} ({one.why}); write {one.write}"
        for one in problems
    ]
    if found:
        raise ValueError("\n".join(found))
