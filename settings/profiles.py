"""The profiles by name, from profiles.yaml. Looking one up validates that one only: a preview pays for what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import ValidationError

from facts.ledger import LedgerError
from settings import profile_file
from settings.profile import Difference, Evidence, Profile
from settings.sections.section import tuples

__all__ = ["NAMES", "Difference", "Evidence", "Profile", "UnknownProfileError", "profile", "validated"]

NAMES: tuple[str, ...] = profile_file.names()
"""Every profile, those for use first, then the article's phases in its order."""


class UnknownProfileError(LookupError):
    """No profile has that name. The message names those there are, and the nearest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = next(iter(get_close_matches(name, NAMES, n=1)), None)
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"no profile is called {name!r}{hint} Profiles: {', '.join(NAMES)}")

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def profile(name: str) -> Profile:
    """The profile of that name. Raises UnknownProfileError, and LedgerError where the file has it wrong."""
    if name not in NAMES:
        raise UnknownProfileError(name)
    return validated(profile_file.entry(name))


def validated(entry: Mapping[str, Any]) -> Profile:
    """The profile of an entry as `profile_file.resolved` gives it. Raises LedgerError with every key that is wrong."""
    try:
        return Profile.model_validate(tuples(entry))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
            # Of a missing key pydantic tells the whole section.
            + ("" if detail["type"] == "missing" else f", got {detail['input']!r}")
            for detail in error.errors(include_url=False)
        )
        raise LedgerError(f"{profile_file.NAME}, {entry['name']}: {wrong}") from None
