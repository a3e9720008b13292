"""The gateway's host name, on a stack that also serves it in plain HTTP, and a change of its picker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from facts.pickers import LLM_D
from fleet.preview.offline import open_stack
from lab.cloud.gateway import INFERENCE_POOL
from lab.stage.stage import Stage, Surroundings
from lab.stage.start import started
from tests.lab.drills.mutation import Inputs, changed
from tests.lab.drills.played import broken, failures, played, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stage(binaries: Binaries, charts: Charts) -> Iterator[Stage]:
    """The gateway's stack, not brought up."""
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=240.0)
    with without_policies(8.0), started(open_stack(ROOT, "gateway"), around) as opened:
        yield opened


def test_a_route_on_both_listeners_fails_the_host_name(stage: Stage) -> None:
    def everywhere(inputs: Inputs) -> None:
        del inputs["spec"]["parentRefs"][0]["sectionName"]

    with broken(changed("HTTPRoute", everywhere, "gateway-route")):
        result = played(stage, "gateway-name")
    assert list(failures(result)) == ["port 80 leads to no server"], (result.gave_up, failures(result))


def test_the_route_changes_to_another_picker_once_that_is_ready_and_the_first_goes_after(stage: Stage) -> None:
    small = {"server": {"replicas": 1}, "benchmark": {"enabled": False}}
    assert not stage.up(small).failed
    report = stage.up({**small, "gateway": {"epp": {"release": LLM_D}}})
    assert not report.failed
    done = {urn.rpartition("::")[2]: seconds for urn, seconds in report.finished_seconds.items()}
    assert done["gateway-picker-deployment"] < done["gateway-route"] < done["gateway-pool"]
    pools = stage.api.list_all(INFERENCE_POOL, stage.namespace)
    assert [one["metadata"]["name"] for one in pools] == ["qwen35-pool-llm-d"]
    assert stage.until("the new pool to serve", stage.backends, 900.0)
