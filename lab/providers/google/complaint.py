"""One input that the provider or the API would refuse."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fleet.preview.record.values import UNKNOWN

_LONGEST_VALUE: Final = 80
"""Characters of a value that are shown. Assumed: enough to recognise it."""
_MOST_NAMES: Final = 12
"""Names that are listed before the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong at one input."""

    path: str
    """The input, as the program names it."""
    what: str
    """What is wrong, with the value."""
    source: str
    """Who says so."""


def shown(value: Any, *, secret: bool = False) -> str:
    """A value as a message shows it: short, and never a secret."""
    if secret:
        return "[secret]"
    if value is UNKNOWN:
        return repr(UNKNOWN)
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def listed(names: Iterable[str]) -> str:
    """Names in a row; a long row is cut and says so."""
    known = list(names)
    more = len(known) - _MOST_NAMES
    return ", ".join(known) if more <= 0 else f"{', '.join(known[:_MOST_NAMES])} and {more} more"
