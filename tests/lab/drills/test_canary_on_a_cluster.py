"""The canary among a gateway's users, on a stack whose route has the weights the wrong way round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.stage.stage import Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.drills.mutation import Inputs, changed
from tests.lab.drills.played import broken, failures, played, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def test_swapped_weights_fail_the_canary_among_users(binaries: Binaries, charts: Charts) -> None:
    from lab.control_plane.custom_resources.definitions import definitions

    def swapped(inputs: Inputs) -> None:
        servers, canary = inputs["spec"]["rules"][0]["backendRefs"]
        servers["weight"], canary["weight"] = canary["weight"], servers["weight"]

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=240.0)
    opened = varied(open_stack(ROOT, "gateway"), {"server": {"replicas": 1}, "benchmark": {"enabled": False}})
    with without_policies(8.0), started(opened, around) as stage:
        stage.bring_up()
        with broken(changed("HTTPRoute", swapped)):
            result = played(stage, "canary-among-users")
    [(statement, seen)] = failures(result).items()
    assert statement.startswith("40 %"), (result.gave_up, failures(result))
    arrived, sent = map(int, seen.split(" of "))
    assert abs(arrived - 0.6 * sent) <= 0.5
