"""The drill of a scheduled window, looked at by a machine that is late."""

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
from lab.stage.meter import Series

SETTINGS = open_stack(Path(__file__).parents[3], "prod").settings
FEW, MANY = 2, 4
"""prod's minimum, and its replicas in the window."""
EARLY_SECONDS = 1800.0
LATE_SECONDS = 300.0
"""From what happens to the look at it."""


class LateStage:
    """A stage whose waits end late; the autoscaler acts `scaled_after` the moment at which the window opens."""

    settings = SETTINGS
    servers = FEW

    def __init__(self, *, scaled_after: float, ready_after: float) -> None:
        self.at, self.opens_at, self.began = 0.0, 480.0, datetime.min
        self.scaled_at, self.ready_at = self.opens_at + scaled_after, self.opens_at + ready_after
        self.clock = SimpleNamespace(now_seconds=lambda: self.at)
        self.meter = SimpleNamespace(servers=Series([(0.0, FEW)]), ready_servers=Series([(0.0, FEW)]))

    @property
    def keda(self) -> Any:
        return SimpleNamespace(now=self.began + timedelta(seconds=self.at))

    def rest(self, now: datetime) -> None:
        self.began = now

    def until(self, _what: str, condition: Callable[[], Any], _limit: float) -> None:
        if not condition():
            while not condition():
                self._pass(10.0)
            self._pass(LATE_SECONDS)

    def _pass(self, seconds: float) -> None:
        self.at += seconds
        for series, at in ((self.meter.servers, self.scaled_at), (self.meter.ready_servers, self.ready_at)):
            if at <= self.at:
                series.add(at, MANY)


@pytest.mark.parametrize(
    ("scaled_after", "ready_after", "held"),
    [
        (60.0, EARLY_SECONDS - 60, {"no earlier scale-up": True, "Ready when": True}),
        (60.0, EARLY_SECONDS + 60, {"no earlier scale-up": True, "Ready when": False}),
        (-60.0, EARLY_SECONDS - 60, {"no earlier scale-up": False, "Ready when": True}),
    ],
    ids=["in time", "Ready a minute late", "scaled up a minute early"],
)
def test_what_counts_is_when_it_happened_and_not_when_it_was_seen(
    scaled_after: float, ready_after: float, held: dict[str, bool]
) -> None:
    drill = next(one for one in DRILLS if one.name == "schedule")
    stage: Any = LateStage(scaled_after=scaled_after, ready_after=ready_after)
    proof = Proof()
    drill.play(stage, proof)
    seen = {about: one.severity == "passed" for about in held for one in proof.checks if about in one.subject}
    assert seen == held
