"""Options and variables of a vLLM server that are refused, whatever the release."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).parent / "data" / "vllm-refused.txt"
_OFF: Final = frozenset({"", "0", "false"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why an option or variable is refused."""

    why: str
    write: str
    """What to write instead."""
    here: bool
    """Whether it is refused in a stack file only: a server of others may have it."""
    values: tuple[str, ...] = ()
    """Patterns of its values."""
    but: bool = False
    """Whether it is refused for all values but these."""

    def takes(self, value: str) -> bool:
        """Whether that value is refused."""
        value = value.strip()
        path = posixpath.normpath(value).replace("//", "/") if value.startswith("/") else value
        matches = any(fnmatchcase(one.lower(), it.lower()) for it in self.values for one in (value, path))
        return not self.values or matches is not self.but


def option(name: str, value: Any) -> Iterator[tuple[str, Refused]]:
    """The refused parts of an option: itself, or keys of its JSON value. `name`: long name without dashes."""
    if value is False:
        # `--no-x`: it does not have the option's effect.
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from option(f"{name}.{key}", inner)
        return
    outer = name
    while outer not in _table() and "." in outer:
        outer = outer.rpartition(".")[0]
    refused = _table().get(outer)
    if refused is not None and refused.takes(str(value)):
        yield name, refused


def variable(name: str, value: str | None) -> Refused | None:
    """Why an environment variable is refused; None if it is not. `value`: None if it comes from elsewhere."""
    refused = _table().get(name)
    if refused is None or (value is not None and (value.strip().lower() in _OFF or not refused.takes(value))):
        return None
    return refused


def names() -> frozenset[str]:
    """Every option, part of one, and variable that is refused for some value."""
    return frozenset(_table())


@cache
def _table() -> Mapping[str, Refused]:
    table: dict[str, Refused] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            text, _, write = line.partition(" | ")
            why, here = text.removeprefix("here: "), text.startswith("here: ")
        else:
            for entry in line.split():
                name, equals, values = entry.partition("=")
                given = tuple(values.split(",")) if equals else ()
                but = name.endswith("!")
                table[name.rstrip("!")] = Refused(why=why, write=write, here=here, values=given, but=but)
    return table
