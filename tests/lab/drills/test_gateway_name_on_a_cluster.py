"""The gateway's host name, on a stack that also serves it in plain HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.stage.stage import Surroundings
from lab.stage.start import started
from tests.lab.drills.mutation import Inputs, changed
from tests.lab.drills.played import broken, failures, played, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def test_a_route_on_both_listeners_fails_the_host_name(binaries: Binaries, charts: Charts) -> None:
    from lab.control_plane.custom_resources.definitions import definitions

    def everywhere(inputs: Inputs) -> None:
        del inputs["spec"]["parentRefs"][0]["sectionName"]

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=240.0)
    with (
        without_policies(8.0),
        started(open_stack(ROOT, "gateway"), around) as stage,
        broken(changed("HTTPRoute", everywhere, "gateway-route")),
    ):
        result = played(stage, "gateway-name")
    assert list(failures(result)) == ["port 80 leads to no server"], (result.gave_up, failures(result))
