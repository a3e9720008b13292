"""Drills of prefill apart from decode, with the pod's own supervisor and the real vllm-router: each holds for a stack with the shape, and
fails for pods that are broken where it looks. One cluster, and one update that breaks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet.preview.offline import open_stack
from lab.drills import prefill_apart
from lab.stage.stage import Stage, Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.cloud.routers.play import NEEDS_HAPROXY
from tests.lab.cloud.routers.split import NEEDS_VLLM_ROUTER, PAIR, edited
from tests.lab.drills.mutation import Inputs, changed
from tests.lab.drills.played import broken, failure, failures, patient, played, restore, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = [pytest.mark.slow, NEEDS_HAPROXY, NEEDS_VLLM_ROUTER]
ROOT = Path(__file__).parents[3]
SPEED = 60.0
LAG_SECONDS = 20.0
NAMES = ("prefill-moves", "prefill-drains", "prefill-part-dies")


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


def test_pods_without_connector_supervision_and_time_fail_all_three(
    running: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(running)

    def spoil(inputs: Inputs) -> None:
        spec: Any = inputs["spec"]["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 1
        for container in spec["containers"]:
            del container["lifecycle"]
        engines = spec["containers"][0]
        engines["args"] = [word for word in engines["args"] if not word.startswith("--kv-transfer-config")]
        # A supervisor that is blind to the end of an engine.
        edited(engines, "if not self.is_stopping and", "if False and")

    with broken(changed("Deployment", spoil, "server-deployment")):
        with patient():
            assert not running.up().failed
            running.until_ready(running.servers)
        # The article's failure: every answer is right, and nothing moved.
        result = played(running, "prefill-moves")
        assert failure(result, "move: decode").startswith(f"{8 * 768} tokens computed, 0 transferred")
        assert "prompts are answered" not in failures(result)
        assert failure(played(running, "prefill-drains"), "within its grace period").startswith("killed")
        monkeypatch.setattr(prefill_apart, "WALL_SECONDS", 8.0)
        assert "to end without its prefill engine" in played(running, "prefill-part-dies").gave_up
