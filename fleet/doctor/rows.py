"""Rows of the live checks: needed, granted, missing, fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ready", "by up", "missing", "unknown"]
"""`by up`: created by `pulumi up`. `unknown`: the query failed; never treated as ready."""
Amount = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One requirement of a stack."""

    area: str
    """quota, zone, reservation, API, billing, permission or images."""
    name: str
    state: State
    needed: Amount
    granted: Amount
    """The granted amount; empty if unknown."""
    missing: Amount = ""
    """The missing amount; empty if none."""
    why: str = ""
    """Reason for the requirement, and the finding."""
    mend: str = ""
    """Command that fixes it, or where to look; empty if not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    """The rows of one stack."""

    stack: str
    project: str
    region: str
    zones: tuple[str, ...]
    rows: tuple[Row, ...]
    neighbours: tuple[str, ...]
    """Usage by other stacks of the project, one sentence each."""
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether nothing is missing or unknown."""
        return all(row.state in ("ready", "by up") for row in self.rows)
