"""Refusals of a component's arguments: faults that would show after GPUs are billed, or never."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pydantic.alias_generators import to_snake

from facts.finding import Finding, raise_refused
from settings.sections.section import NAMESPACE

_CAMEL: Final = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+)+\b")
_KEY: Final = re.compile(rf"({_CAMEL.pattern}): ")


def refuse(args: object, problems: Iterable[Finding]) -> None:
    """Raise ValueError with all refusals, if any. A problem's subject is the name of a field of `args`; a stack file's names, such as
    `sizeGib`, become the program's.
    """
    refusals = [
        replace(
            problem,
            subject=f"{type(args).__name__}.{_CAMEL.sub(lambda found: to_snake(found[0]), problem.subject.removeprefix(f'{NAMESPACE}:'))}",
            write=_KEY.sub(lambda found: f"{to_snake(found[1])}=", problem.write),
        )
        for problem in problems
        if problem.severity == "error"
    ]
    if refusals:
        raise_refused(refusals)
