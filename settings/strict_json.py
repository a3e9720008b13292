"""Reads JSON that somebody else wrote: what is no JSON, or too deep to be walked through, is a ValueError."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, Final

_DEEPEST: Final = 100
"""Assumed: five times the deepest object that Kubernetes, Google Cloud or a state has here."""

_MOST_BYTES: Final = 256 * 2**20
"""Assumed: ten times the state of a stack with ten thousand resources."""


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
    """The value in a file. Raises OSError for a folder, a pipe or a device, which may never end, and for a file above 256 MiB."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return loads(data)


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
