"""Reads untrusted JSON. Raises ValueError for invalid JSON and for excessive nesting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from facts.files import MOST_BYTES, read_bounded

MOST_ITEMS: Final = 2_000
"""Keys and values of a stack file, or of one of its sections. Assumed: ten times the largest here."""


_DEEPEST: Final = 100
"""Assumed: five times the deepest object of Kubernetes, Google Cloud or a Pulumi state in this project."""


class TooLargeError(ValueError):
    """More items than the caller reads."""


class KeyTwiceError(ValueError):
    """An object has a key twice, the message."""


def loads(text: str | bytes, most_items: int | None = None, *, keys_once: bool = False) -> Any:
    """Parse JSON. Raises ValueError also for `Infinity` and `NaN`, which Python accepts, and for more than a hundred levels;
    TooLargeError for more than `most_items` keys and values; with `keys_once` KeyTwiceError, where Python takes the last value.
    """
    try:
        document = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once if keys_once else None)
    except RecursionError:
        raise ValueError("too many levels") from None
    level, depth, items = [document], 0, 0
    while level := [item for value in level for item in _items(value)]:
        if most_items is not None and (items := items + len(level)) > most_items:
            raise TooLargeError(f"more than {most_items:,} keys and values")
        if (depth := depth + 1) > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels")
    return document


def read(path: Path, most: int = MOST_BYTES) -> Any:
    """Parse a file of up to `most` bytes. Raises ValueError, and OSError as `read_bounded` does."""
    return loads(read_bounded(path, most))


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyTwiceError(next(key for key in keys if keys.count(key) > 1))
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
