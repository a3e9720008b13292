"""Which alerts a drill watches, and a range query over its samples by Prometheus' own program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.drills.alerts.watch import INTERVAL_SECONDS, AlertWatch
from lab.simulators.model_server.timing import ServerTiming
from settings.stack import Settings
from tests.support.settings import make_settings

BEGAN, STEP = 1000.0, 30
NAME = "vllm:num_requests_running"


def watch(settings: Settings, samples: dict[int, str] | None = None) -> AlertWatch:
    """A watch that began at 1000 s, with these samples of one series."""
    load = SimpleNamespace(timing=ServerTiming(ttft_seconds=1.0, tpot_seconds=0.01))
    clock = SimpleNamespace(speed=1.0, now_seconds=lambda: BEGAN)
    stage = SimpleNamespace(settings=settings, traffic=SimpleNamespace(load=load), clock=clock)
    made = AlertWatch(cast(Any, stage))
    made._samples[f'{NAME}{{pod="a"}}'] = samples or {}
    return made


@pytest.mark.slow
def test_a_range_has_the_rehearsals_times_and_nothing_older_than_asked() -> None:
    each = STEP / INTERVAL_SECONDS
    seen = watch(make_settings(), {int(step * each): str(step) for step in range(10)})
    [curve] = seen.range(f"{NAME} > 2", BEGAN + 4 * STEP, BEGAN + 8 * STEP, STEP)
    assert curve.samples == tuple((BEGAN + step * STEP, step) for step in range(4, 9))
    assert seen.range(f"{NAME} > 9", BEGAN, BEGAN + 8 * STEP, STEP) == ()


@pytest.mark.slow
def test_what_prometheus_refuses_is_an_error() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        watch(make_settings(), {0: "1"}).range(f"rate({NAME}[5m]", BEGAN, BEGAN + STEP, STEP)
