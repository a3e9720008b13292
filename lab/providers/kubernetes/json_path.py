"""The subset of kubectl's JSONPath used by readiness conditions: fields, indexes, wildcards, filters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<field>(?:[\w$-]|\\.)+)
      | \['(?P<quoted>[^']*)'\]
      | \[(?P<index>-?\d+)\]
      | (?P<all>\.?\[\*\]|\.\*)
      | \[\?\(\s*@(?P<inside>[^=!<>\s]*)\s*(?:(?P<operator>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|[^\s)]+)\s*)?\)\]
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """The expression is invalid."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path."""

    text: str
    steps: tuple[re.Match[str], ...]

    def find(self, value: Any) -> list[Any]:
        """Values at the path; none for a missing field."""
        found = [value]
        for step in self.steps:
            found = [inner for outer in found for inner in _descend(outer, step)]
        return found


def parse(text: str) -> JsonPath:
    """Parse `{.status.phase}`; braces and the first dot are optional, as in kubectl. Raises JsonPathError."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    if inner and not inner.startswith((".", "[")):
        inner = f".{inner}"
    steps: list[re.Match[str]] = []
    position = 0
    while position < len(inner):
        step = _STEP.match(inner, position)
        if step is None:
            raise JsonPathError(f"`{text}` is not a valid JSONPath at `{inner[position:]}`")
        steps.append(step)
        position = step.end()
    if not steps:
        raise JsonPathError(f"`{text}` has no field")
    return JsonPath(text, tuple(steps))


def _descend(value: Any, step: re.Match[str]) -> Iterator[Any]:
    name = step["field"] or step["quoted"]
    if name is not None:
        name = name.replace("\\.", ".")
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif step["index"] is not None:
        index = int(step["index"])
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]
    else:
        items: Sequence[Any] = value if isinstance(value, list) else ()
        if isinstance(value, dict) and step["all"]:
            items = list(value.values())
        for item in items:
            if step["all"] or _passes(item, step):
                yield item


def _passes(item: Any, step: re.Match[str]) -> bool:
    found = parse(step["inside"]).find(item) if step["inside"] else [item]
    if step["operator"] is None:
        return bool(found)
    literal = step["literal"]
    wanted = literal[1:-1] if literal[0] in "\"'" else _plain(literal)
    return bool(found) and (found[0] == wanted) == (step["operator"] == "==")


def _plain(literal: str) -> Any:
    try:
        return json.loads(literal)
    except ValueError:
        return literal
