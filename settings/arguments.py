"""Checks a component's arguments against the limits of the stack file's sections."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from facts.finding import Finding
from facts.secrets_in_text import without_secrets
from settings.sections.section import Section


def within_limits(args: object, section: type[Section], fields: Iterable[str]) -> None:
    """Check these fields of `args` against the section's fields of the same names. Raises ValueError with every wrong value."""
    try:
        section.model_validate({name: getattr(args, name) for name in fields})
    except ValidationError as error:
        raise ValueError(
            "\n".join(
                without_secrets(f"{type(args).__name__}.{one['loc'][0]} is {one['input']!r}; allowed: {one['msg']}")
                for one in error.errors(include_url=False)
            )
        ) from None


def refuse(args: object, problems: Iterable[Finding]) -> None:
    """Raise ValueError with all refusals, if any. A problem's subject is the name of a field of `args`."""
    found = [
        f"{type(args).__name__}.{one.subject} is {one.found!r}; allowed: {one.allowed} ({one.why}); write {one.write}"
        for one in problems
        if one.severity == "error"
    ]
    if found:
        raise ValueError("\n".join(found))
