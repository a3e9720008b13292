"""One thing that the provider or the API would refuse, and how it is told."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from preview.values import UNKNOWN
from rehearsal.results import Finding

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
    fix: str
    severity: Literal["error", "warning"] = "error"

    def finding(self, urn: str) -> Finding:
        """The same, for the rehearsal's results."""
        message = f"{self.path}: {self.what} ({self.source})"
        return Finding(severity=self.severity, subject=urn, message=message, fix=self.fix)


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


def closest(wrong: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    by_case = {name.lower(): name for name in names}
    found = difflib.get_close_matches(wrong.lower(), by_case, n=1, cutoff=0.6)
    return by_case[found[0]] if found else None
