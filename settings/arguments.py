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
                without_secrets(
                    f"{type(args).__name__}.{detail['loc'][0]} is {detail['input']!r}; allowed: {detail['msg']}"
                )
                for detail in error.errors(include_url=False)
            )
        ) from None


def refuse(args: object, problems: Iterable[Finding]) -> None:
    """Raise ValueError with all refusals, if any. A problem's subject is the name of a field of `args`."""
    refusals = [
        f"{type(args).__name__}.{problem.subject} is {problem.found!r}; allowed: {problem.allowed} ({problem.why}); write {problem.write}"
        for problem in problems
        if problem.severity == "error"
    ]
    if refusals:
        raise ValueError("\n".join(refusals))
