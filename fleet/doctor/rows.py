"""What Google Cloud says about one stack: a finding for each requirement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from facts.finding import Finding, Severity

if TYPE_CHECKING:
    from fleet.doctor.google import Google

Area = Literal["api", "permission", "zone", "spot", "reservation", "quota", "network", "images", "domain"]
State = Literal["ready", "by up", "to pin", "of today", "missing", "unknown"]
"""`by up`: created by `pulumi up`. `to pin`: works, and the stack file should have the value. `of today`: another hour may say otherwise.
`unknown`: the query failed; never treated as ready."""
Amount = int | str
_SEVERITIES: Final[dict[State, Severity]] = {
    "ready": "passed",
    "by up": "note",
    "to pin": "note",
    "of today": "note",
    "missing": "error",
    "unknown": "unknown",
}


def row(
    *,
    area: Area,
    name: str,
    state: State,
    needed: Amount,
    granted: Amount,
    why: str = "",
    mend: str = "",
) -> Finding:
    """One requirement of a stack: `found` is what is granted, `allowed` what is needed, `write` the command that fixes it."""
    return Finding(
        id=area,
        subject=name,
        severity=_SEVERITIES[state],
        found=granted,
        allowed=f"at least {needed}" if isinstance(needed, int) else needed,
        why=why,
        write="" if state == "ready" else mend,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked together."""

    area: Area
    name: str
    ask: Callable[[Google], Iterator[Finding]]
    """Its rows. Raises LiveError, or LookupError, TypeError, ValueError or AttributeError for an answer of another form."""
    look: str
    """Where a user looks if there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    """The findings of one stack."""

    stack: str
    project: str
    region: str
    zones: tuple[str, ...]
    findings: tuple[Finding, ...]
    neighbours: tuple[str, ...]
    """Usage by other stacks of the project, one sentence each."""
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether nothing is missing or unknown."""
        return all(finding.severity in ("passed", "note") for finding in self.findings)
