"""The simulated calendar stands, and where it runs it runs as fast as the HPA controller looks."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from lab.cloud.keda.operator import A_MONDAY, SCALED_OBJECT, Keda
from lab.cloud.keda.wall_time import SYNC_SECONDS
from lab.results.clock import Clock
from tests.lab.cloud.keda.played import SPACE, scaled_object

CRON = {"timezone": "UTC", "start": "1 12 * * 1-5", "end": "0 19 * * 1-5", "desiredReplicas": "4"}
FIRST = "s0-cron-UTC-112xx1-5-019xx1-5"


def test_the_calendar_stands_until_it_runs_by_the_looks() -> None:
    api = MagicMock()
    scaled = scaled_object(triggers=[{"type": "cron", "metadata": CRON}])
    scaled["metadata"] |= {"generation": 1, "uid": "1"}
    api.list_all.side_effect = lambda kind, *_, **__: [scaled] if kind == SCALED_OBJECT else []
    api.get.return_value = {"spec": {"replicas": 1}}
    world: Any = SimpleNamespace(api=api, clock=Clock(120), pods=MagicMock())
    keda = Keda(world, MagicMock())
    keda.run_without_pods()

    def looks(number: int) -> list[float]:
        return [keda._metric(SPACE, "fleet", FIRST) for _ in range(number)]

    keda._look()
    assert (looks(8), keda.now) == ([0.0] * 8, A_MONDAY)
    keda.run_calendar()
    assert looks(8) == [0.0] * 3 + [4.0] * 5
    assert keda.now == A_MONDAY + timedelta(seconds=8 * SYNC_SECONDS)
    keda.restart_at(A_MONDAY)
    keda._look()
    assert (looks(8), keda.now) == ([0.0] * 8, A_MONDAY)
