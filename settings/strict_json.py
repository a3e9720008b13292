"""Reads untrusted JSON. Raises ValueError for invalid JSON and for excessive nesting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from settings.files import read_bounded

_DEEPEST: Final = 100
"""Assumed: five times the deepest object of Kubernetes, Google Cloud or a Pulumi state in this project."""


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError also for `Infinity` and `NaN`, which Python accepts, and for more than a hundred levels."""
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
    """Parse a file. Raises ValueError, and OSError as `read_bounded` does."""
    return loads(read_bounded(path))


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
