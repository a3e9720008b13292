"""Cloud Logging's side of a log-based metric: which entries its filter matches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

Entry = Mapping[str, Any]


def matches(filter_: str, entry: Entry) -> bool:
    """Whether an entry matches a filter.

    One clause per line: `path="x"`, `path:"x"` (contains), `path=("x" OR "y")`, `log_id("x")`, `"x"`.

    Raises ValueError for a clause of another kind.
    """
    return all(_holds(line.strip(), entry) for line in filter_.splitlines())


def _holds(clause: str, entry: Entry) -> bool:
    text = r'"(?:[^"\\]|\\.)*"'
    match = re.fullmatch(rf"(?:([\w.]+)([:=])|(log_id))?(\()?({text}(?: OR {text})*)\)?", clause)
    if match is None:
        raise ValueError(f"unsupported clause: {clause}")
    path, operator, log_id, _, texts = match.groups()
    wanted = [re.sub(r"\\(.)", r"\1", one[1:-1]) for one in re.findall(text, texts)]
    if log_id:
        return str(entry["logName"]).endswith(f"/logs/{quote(wanted[0], safe='')}")
    found = list(_values(entry, path.split(".") if path else ["*"]))
    return any(text == one if operator == "=" else text in one for text in wanted for one in found)


def _values(part: Any, path: list[str]) -> Iterator[str]:
    """Strings at a path; lists are searched, and `*` matches anywhere."""
    if isinstance(part, list):
        for one in part:
            yield from _values(one, path)
    elif isinstance(part, Mapping):
        for name in part if path == ["*"] else path[:1]:
            yield from _values(part.get(name), path if path == ["*"] else path[1:])
    elif isinstance(part, str) and path in ([], ["*"]):
        yield part
