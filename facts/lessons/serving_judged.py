"""The rule about options and variables that are refused, `facts/data/vllm-refused.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts import refused_options
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.lessons.words import variable
from facts.refused_options import Refused
from facts.secrets_in_text import without_secrets

_LONGEST: Final = 80
"""Characters of a value that are shown."""


def refused(server: Served) -> Iterator[tuple[str, object, Refused]]:
    """Every refused option, part of a JSON option and variable: its name for a lesson, its value, and why."""
    release = server.release
    known = release.options.kinds if release is not None and release.known else None
    found = [
        (name, _at(value, name), verdict)
        for option, value in server.flags.options.items()
        # flags-vllm-refuses reports the others.
        if known is None or option in known
        for name, verdict in refused_options.option(option, value)
    ]
    for name, text in server.variables.items():
        if (given := refused_options.variable(name, text)) is not None:
            found.append((variable(name), "set", given))
    yield from (one for one in found if server.is_declared or not one[2].here)


def _at(value: object, name: str) -> object:
    """The value of a part of an option, shortened."""
    for key in name.split(".")[1:]:
        value = value[key] if isinstance(value, dict) and key in value else value
    if isinstance(value, bool):
        return value
    text = without_secrets(str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _opened(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value, verdict in refused(server):
        why = f"{verdict.why}; {verdict.write}"
        yield Breach(option=option, value=value, allowed="left out", why=why, changes={option: None})


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="server-opened",
        statement="No option or variable runs code from elsewhere, opens the server to its clients, or cannot work in its pod.",
        evidence="of the options and variables of vLLM 0.18.1 and 0.33.0, facts/data/vllm-refused.txt has classes of Python and libraries "
        "to load, vLLM's development mode, pickled messages and adapters loaded on request",
        level_reason="any client, or whoever wrote the option, could control the server and read what it serves",
        fix="remove the option or variable",
        level="mandatory",
        severity="critical",
        judge=_opened,
    ),
)
