"""A range query over a stage's samples, by Prometheus' own program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from lab.drills.alerts.watch import INTERVAL_SECONDS, AlertWatch
from lab.stage.traffic.traffic import published_load
from tests.support.settings import make_settings

if TYPE_CHECKING:
    from lab.stage.stage import Stage

pytestmark = pytest.mark.slow

BEGAN, STEP = 1000.0, 30
NAME = "vllm:num_requests_running"


def watch(values: dict[int, str]) -> AlertWatch:
    """A watch that began at 1000 s, with these samples of one series."""
    stage = SimpleNamespace(
        settings=make_settings(),
        traffic=SimpleNamespace(load=published_load()),
        answers=None,
        clock=SimpleNamespace(speed=1.0, now_seconds=lambda: BEGAN),
    )
    made = AlertWatch(cast("Stage", stage))
    made._samples[f'{NAME}{{pod="a"}}'] = values
    return made


def test_times_are_of_the_rehearsals_clock_and_no_older_than_asked() -> None:
    each = STEP / INTERVAL_SECONDS
    seen = watch({int(step * each): str(step) for step in range(10)})
    [curve] = seen.range(f"{NAME} > 2", BEGAN + 4 * STEP, BEGAN + 8 * STEP, STEP)
    assert curve.samples == tuple((BEGAN + step * STEP, step) for step in range(4, 9))
    assert seen.range(f"{NAME} > 9", BEGAN, BEGAN + 8 * STEP, STEP) == ()


def test_what_prometheus_refuses_is_an_error() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        watch({0: "1"}).range(f"rate({NAME}[5m]", BEGAN, BEGAN + STEP, STEP)
