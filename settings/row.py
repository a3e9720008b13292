"""The row of a check: an id, one fixed sentence why, one fixed cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from facts.finding import Finding, Severity
from settings.sections.section import key


@dataclass(frozen=True, slots=True)
class Row:
    """What a check says whenever it finds something. Figures of a stack are in `allowed`."""

    id: str
    why: str
    cure: str
    severity: Severity = "error"

    def __call__(self, path: str, found: Any, allowed: str, severity: Severity | None = None) -> Finding:
        """The finding at a key of the stack file, such as `server.replicas`."""
        return Finding(
            id=self.id,
            subject=path if ":" in path else key(path),
            found=found,
            allowed=allowed,
            why=self.why,
            write=self.cure,
            severity=severity or self.severity,
        )
