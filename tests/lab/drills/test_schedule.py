"""The drill of a scheduled window, on a machine that is busy for hours of simulated time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.preview.offline import open_stack
from lab.drills.catalogue import DRILLS
from lab.drills.drill import Proof

SETTINGS = open_stack(Path(__file__).parents[3], "prod").settings
FEW, MANY = 2, 4
"""prod's minimum, and its replicas in the window."""
EARLY_SECONDS = 1800.0
BUSY = timedelta(hours=3)
"""Until replicas are Ready, by the calendar."""


class BusyStage:
    """A stage whose autoscaler asks for more replicas `asked_after` the moment at which the window opens."""

    settings, servers, server, namespace = SETTINGS, FEW, "server", "serving"

    def __init__(self, *, asked_after: float, start_seconds: float) -> None:
        self.asked_after = timedelta(seconds=asked_after)
        self.timings = SimpleNamespace(whole_start_seconds=start_seconds)
        self.keda = SimpleNamespace(now=datetime.min, run_calendar=lambda: None)
        self.api = SimpleNamespace(get=lambda *_: {"spec": {"replicas": self.asked}})

    @property
    def asked(self) -> int:
        return MANY if self.keda.now >= self.asked_at else FEW

    def rest(self, now: datetime) -> None:
        self.keda.now, self.asked_at = now, now + timedelta(minutes=8) + self.asked_after

    def until_ready(self, servers: int) -> None:
        assert servers == self.asked
        if servers == MANY:
            self.keda.now += BUSY

    def until(self, _what: str, condition: Callable[[], Any], _limit: float) -> Any:
        while not (found := condition()):
            self.keda.now += timedelta(seconds=15)
        return found


@pytest.mark.parametrize(
    ("asked_after", "start_seconds", "held"),
    [
        (60.0, EARLY_SECONDS - 120, {"no earlier scale-up": True, "Ready when": True}),
        (60.0, EARLY_SECONDS, {"no earlier scale-up": True, "Ready when": False}),
        (-60.0, EARLY_SECONDS - 120, {"no earlier scale-up": False, "Ready when": True}),
    ],
    ids=["in time", "Ready a minute late", "scaled up a minute early"],
)
def test_calendar_and_timings_count_and_not_what_a_busy_machine_takes(
    asked_after: float, start_seconds: float, held: dict[str, bool]
) -> None:
    drill = next(one for one in DRILLS if one.name == "schedule")
    stage: Any = BusyStage(asked_after=asked_after, start_seconds=start_seconds)
    proof = Proof()
    drill.play(stage, proof)
    seen = {about: one.severity == "passed" for about in held for one in proof.checks if about in one.subject}
    assert seen == held
