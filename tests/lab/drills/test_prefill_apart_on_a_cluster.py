"""Drills of prefill apart from decode, with the pod's own supervisor and the real vllm-router: each holds for a stack with the shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.stage.stage import Stage, Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.cloud.routers.play import NEEDS_HAPROXY
from tests.lab.cloud.routers.split import NEEDS_VLLM_ROUTER, PAIR
from tests.lab.drills.played import failures, patient, played, restore, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = [pytest.mark.slow, NEEDS_HAPROXY, NEEDS_VLLM_ROUTER]
ROOT = Path(__file__).parents[3]
SPEED = 60.0
LAG_SECONDS = 20.0
NAMES = ("prefill-moves", "prefill-drains")


@pytest.fixture(scope="module")
def running(binaries: Binaries, charts: Charts) -> Iterator[Stage]:
    """One stage for the module: the dev stack with two pods of one prefill and one decode engine each."""
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=SPEED)
    with without_policies(LAG_SECONDS), started(varied(open_stack(ROOT, "dev"), PAIR), around) as stage:
        with patient():
            stage.bring_up()
        yield stage


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_with_the_shape_holds(running: Stage, name: str) -> None:
    restore(running)
    with patient():
        result = played(running, name)
    assert result.passed, (result.gave_up, failures(result), result.findings)
    assert result.checks
