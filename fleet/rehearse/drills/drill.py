"""What a drill is: a name, what it proves, where it starts from, and a play that writes down what it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fleet.rehearse.results import Check, Day, Figure, Finding

if TYPE_CHECKING:
    from fleet.rehearse.alerts.watch import AlertWatch
    from fleet.rehearse.apply.inventory import Retained
    from fleet.rehearse.report.model import Scale
    from fleet.rehearse.stage import Stage
    from settings.stack import Settings

Start = Literal["running", "empty"]


@dataclass
class Proof:
    """What a drill saw. A drill ends early by raising `DrillBrokenOffError`."""

    checks: list[Check] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    requests: list[Figure] = field(default_factory=list)
    """What became of requests meanwhile; shown after the drill's own figures."""
    findings: list[Finding] = field(default_factory=list)
    day: Day | None = None
    retained: list[Retained] = field(default_factory=list)
    """What outlives the stack."""
    scales: list[Scale] = field(default_factory=list)
    """How long a bring-up of a size took on this machine."""
    watch: AlertWatch | None = None
    """The stack's alerts while they are watched."""

    def check(self, statement: str, held: bool, seen: str, *, empty: str = "") -> bool:
        """Write down whether something held and what was seen; returns whether it held. `empty`: why it could not have failed."""
        self.checks.append(Check(statement=statement, held=held, seen=seen, empty=empty))
        return held

    def figure(self, name: str, value: float | int | str, unit: str = "", note: str = "", about: str = "") -> None:
        """Write down a number."""
        self.figures.append(Figure(name=name, value=value, unit=unit, note=note, about=about))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One bad day, or one good one."""

    name: str
    """On the command line, kebab-case."""
    title: str
    proves: str
    """One sentence for the table and the page."""
    play: Callable[[Stage, Proof], None]
    start: Start = "running"
    """`running`: the stack is up as its file says, and is again afterwards. `empty`: a control plane of its own."""
    speed: float | None = None
    """Simulated seconds a wall second, where the drill needs a slower clock than the others; only with start `empty`."""
    sections: Mapping[str, Any] = field(default_factory=dict)
    """What the drill writes over the stack's file, section by section; only with start `empty`."""
    spends_stage: bool = False
    """Whether the stack is gone afterwards: such a drill is played last."""
    alerts: tuple[str, ...] | None = None
    """Alerts of the stack that must fire, where it has them; no other page may. None: they are not watched. With start `empty` the drill
    says from when."""
    may_page: tuple[str, ...] = ()
    """Pages that are right as well, on a stack whose only server the drill takes."""
    fast: bool = True
    """Whether CI plays it at every change."""
    skip: Callable[[Settings], str] = lambda _: ""
    """Why the drill has no meaning under these settings, or nothing."""
