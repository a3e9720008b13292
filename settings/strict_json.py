"""Reads JSON that somebody else wrote: what is no JSON, or too deep to be walked through, is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from settings.files import read_bounded

_DEEPEST: Final = 100
"""Assumed: five times the deepest object that Kubernetes, Google Cloud or a state has here."""


def loads(text: str | bytes) -> Any:
    """The value. `Infinity` and `NaN`, which only Python takes for JSON, are refused, as are more than a hundred levels."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too many levels") from None
    level, depth = [found], 0
    while level := [item for one in level for item in _items(one)]:
        if (depth := depth + 1) > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels")
    return found


def read(path: Path) -> Any:
    """The value in a file. Raises ValueError, and OSError as `read_bounded` does."""
    return loads(read_bounded(path))


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
