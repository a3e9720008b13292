"""Drills of prod fail for a ScaledObject or a ComputeClass that is wrong where they look."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.drills import disruption
from lab.stage.stage import Surroundings
from lab.stage.start import started
from tests.lab.drills.mutation import Inputs, both, changed
from tests.lab.drills.played import broken, failure, played, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def late(inputs: Inputs) -> None:
    cron = inputs["spec"]["triggers"][1]["metadata"]
    cron["start"] = cron["start"].replace("30 7", "55 7")


def unrecycled(inputs: Inputs) -> None:
    for rung in inputs["spec"]["priorities"]:
        rung.get("flexStart", {}).pop("nodeRecycling", None)


def test_no_recycling_and_a_late_window_fail_their_drills(
    binaries: Binaries, charts: Charts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=120.0)
    mutation = both(changed("ScaledObject", late), changed("ComputeClass", unrecycled))
    # The drill waits this long for what never comes here.
    monkeypatch.setattr(disruption, "RECYCLE_LEAD_SECONDS", 600)
    with without_policies(20.0), started(open_stack(ROOT, "prod"), around) as stage, broken(mutation):
        stage.bring_up()
        result = played(stage, "flex-recycled")
        # Whether a stream of the sample is cut, too, is chance: a third of a handful.
        assert failure(result, "ahead of its end")
        assert failure(result, "another node")
        assert failure(played(stage, "schedule"), "when the window begins").startswith("-")
