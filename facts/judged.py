"""How far each option and variable of a vLLM server is trusted: harmless, needs a reason, refused, or not judged yet."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Trust = Literal["harmless", "reason", "refused", "unknown"]
_DATA: Final = Path(__file__).parent / "data"
_OFF: Final = frozenset({"", "0", "false"})
_TRUSTS: Final[Mapping[str, Trust]] = {
    "harmless": "harmless",
    "reason": "reason",
    "refused": "refused",
    "refused here": "refused",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The class of an option or variable, and why."""

    trust: Trust
    why: str
    write: str = ""
    """What to write instead, if it is refused."""
    here: bool = False
    """Whether it is refused in a stack file only: a server of others needs a reason."""


NOT_JUDGED: Final = Judged("unknown", "this release of the project does not know what it does")


def option(name: str, value: Any) -> Iterator[tuple[str, Judged]]:
    """The parts of an option, each with its class: one, or the keys of a JSON value. `name`: long name without dashes."""
    if value is False:
        # `--no-x`: it does not have the option's effect.
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from option(f"{name}.{key}", inner)
        return
    yield name, _of_part(name, value)


def variable(name: str, value: str | None) -> Judged:
    """The class of an environment variable. `value`: None if it comes from elsewhere."""
    exact, _, beginnings = _table()
    if value is not None:
        if (given := _of_value(name, value)) is not None:
            return given
        if value.strip().lower() in _OFF:
            return Judged("harmless", "it is off")
    begun = next((judged for start, judged in beginnings.items() if name.startswith(start)), NOT_JUDGED)
    return exact.get(name, begun)


def names() -> frozenset[str]:
    """Every option and variable that has a class."""
    return frozenset(_table()[0])


def _of_part(name: str, value: Any) -> Judged:
    """The class of an option, or of the closest part that has one."""
    if (given := _of_value(name, str(value))) is not None:
        return given
    exact = _table()[0]
    while name not in exact:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return NOT_JUDGED
    return exact[name]


def _of_value(name: str, value: str) -> Judged | None:
    patterns = _table()[1].get(name, {})
    value = value.strip()
    path = posixpath.normpath(value).replace("//", "/") if value.startswith("/") else ""
    for one, judged in patterns.items():
        if fnmatchcase(value, one) or fnmatchcase(value.lower(), one.lower()) or (path and fnmatchcase(path, one)):
            return judged
    return None


@cache
def _table() -> tuple[dict[str, Judged], dict[str, dict[str, Judged]], dict[str, Judged]]:
    """By name; by name and pattern of the value; by the beginning of a variable's name."""
    exact: dict[str, Judged] = {}
    values: dict[str, dict[str, Judged]] = {}
    beginnings: dict[str, Judged] = {}
    for line in (_DATA / "vllm-judged.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            heading, _, text = line.partition(": ")
            why, _, write = text.partition(" | ")
            current = Judged(_TRUSTS[heading], why, write, heading.endswith(" here"))
            continue
        for entry in line.split():
            name, equals, patterns = entry.partition("=")
            if equals:
                values.setdefault(name, {}).update(dict.fromkeys(patterns.split(","), current))
            elif name.endswith("*"):
                beginnings[name.removesuffix("*")] = current
            else:
                exact[name] = current
    return exact, values, beginnings
