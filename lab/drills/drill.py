"""A drill: its name, what it proves, its starting state, and the function that plays it and records the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from facts.finding import Finding, Severity
from lab.results.result import Figure

if TYPE_CHECKING:
    from lab.results.result import Retained
    from lab.stage.stage import Stage
    from lab.stage.update_report import DestroyReport, UpReport
    from settings.stack import Settings

CHECK: Final = "check"
"""Id of a check until its drill's name replaces it."""
NOT_APPLICABLE: Final = "not applicable: "
Start = Literal["running", "empty"]


@dataclass
class Proof:
    """Results of a drill in progress. A drill aborts by raising `DrillBrokenOffError`."""

    checks: list[Finding] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    retained: list[Retained] = field(default_factory=list)
    """What remains after `pulumi destroy`."""

    def check(self, statement: str, held: bool, seen: str, *, empty: str = "") -> bool:
        """Record a check and return whether it held. `empty`: why it could not have failed on this stack."""
        severity: Severity = "note" if empty else "passed" if held else "error"
        found = f"{NOT_APPLICABLE}{empty}" if empty else seen
        self.checks.append(Finding(id=CHECK, subject=statement, severity=severity, found=found))
        return held

    def succeeds(self, statement: str, report: UpReport | DestroyReport) -> None:
        """Check that nothing failed in a `pulumi up` or `pulumi destroy`."""
        self.check(statement, not report.failed, "; ".join(report.failed.values()) or "no failure")

    def figure(self, name: str, value: int, note: str = "") -> None:
        """Record a number."""
        self.figures.append(Figure(name=name, value=value, note=note))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One scenario, played on the control plane."""

    name: str
    """Value of `--drill`, kebab-case."""
    title: str
    proves: str
    """Completes "Proves that ...", without a full stop."""
    play: Callable[[Stage, Proof], None]
    start: Start = "running"
    """`running`: on the stack as its file declares it, which is restored afterwards. `empty`: on a separate, empty control plane."""
    spends_stage: bool = False
    """Whether the drill leaves nothing that another one could be played on: such a drill is played last."""
    skip: Callable[[Settings], str] = lambda _: ""
    """Why the drill does not apply under these settings; empty where it does."""
