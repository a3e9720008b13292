"""What a stack needs of Google Cloud, what is granted, and what mends the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ready", "by up", "missing", "unknown"]
"""`by up`: not there, and made by `pulumi up`. `unknown`: nobody answered, which is never taken for ready."""
Amount = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that a stack needs."""

    area: str
    """quota, zone, reservation, API, billing, permission or images."""
    name: str
    state: State
    needed: Amount
    granted: Amount
    """What is there; empty where that is unknown."""
    missing: Amount = ""
    """The difference; empty where there is none."""
    why: str = ""
    """Where the need comes from, and what was found."""
    mend: str = ""
    """The command, or the place to look at; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    """The rows of one stack."""

    stack: str
    project: str
    region: str
    zones: tuple[str, ...]
    rows: tuple[Row, ...]
    neighbours: tuple[str, ...]
    """What other stacks of the project take beside this one, in a sentence each."""
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether nothing is missing, and nothing unknown."""
        return all(row.state in ("ready", "by up") for row in self.rows)
