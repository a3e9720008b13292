"""Which alerts a drill watches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from facts.signals.catalogue import catalogue
from lab.drills.alerts.watch import AlertWatch
from lab.results.clock import Clock
from lab.simulators.model_server.timing import ServerTiming
from settings.derived.figures import figures
from settings.derived.watched import watched
from tests.support.rows import each_row
from tests.support.settings import make_settings


@each_row(("probe", "not_of_the_stack"), [(True, set()), (False, {"AnswersFail", "AnswersWrong", "AnswersDiffer"})])
def test_a_drill_may_bring_the_answers_probe_and_a_stack_without_it_does_not_miss_it(
    probe: bool, not_of_the_stack: set[str]
) -> None:
    settings = make_settings(monitoring={"probe": probe})
    load = SimpleNamespace(timing=ServerTiming(ttft_seconds=1.0, tpot_seconds=0.01))
    stage = SimpleNamespace(
        settings=settings, traffic=SimpleNamespace(load=load), answers=None, clock=Clock(speed=1_000.0)
    )
    seen = {one.name for one in AlertWatch(cast(Any, stage)).catalogue.alerts}
    own = {one.name for one in catalogue(watched(settings, figures(settings))).alerts}
    assert seen - own == not_of_the_stack
    assert own <= seen
