"""Drills of batches fail for client programs that are wrong where they look. CI's rehearsal of the stack batch shows that they hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet.preview.offline import open_stack
from lab.drills import batch
from lab.stage.stage import Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.drills.played import failure, played, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
BATCHES = {
    "server": {"replicas": None, "scaling": {"mode": "batch", "max": 2}},
    "batch": {"enabled": True},
    "benchmark": {"enabled": False},
}


def program(monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str]) -> None:
    """Client pods run the program with each first text replaced by the second."""
    whole = batch.config_map_manifest

    def broken(**options: Any) -> dict[str, Any]:
        made = whole(**options)
        for before, after in changes:
            (hit,) = (key for key, code in made["data"].items() if before in code)
            made["data"][hit] = made["data"][hit].replace(before, after)
        return made

    monkeypatch.setattr(batch, "config_map_manifest", broken)


def test_clients_that_mix_repeat_give_up_spend_or_forget_fail_their_drills(
    binaries: Binaries, charts: Charts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=240.0)
    opened = varied(open_stack(ROOT, "spot"), BATCHES)
    with without_policies(45.0), started(opened, around) as stage:
        stage.bring_up()
        with monkeypatch.context() as patch:
            program(patch, ('"custom_id": document.custom_id', '"custom_id": document.custom_id[:-1]'))
            assert "missing" in failure(played(stage, "batch-to-zero"), "one line")
        with monkeypatch.context() as patch:
            lines = "(lines[n] for n in sorted(lines))"
            parts = "([*(store.read(name).content for name in self._parts), *lines.values()])"
            program(patch, (lines, parts), ("    self._renew_one(shard)", "    pass"))
            result = played(stage, "batch-client-dies")
            assert " 0 twice" not in failure(result, "one line")
            assert failure(result, "is renewed")
        with monkeypatch.context() as patch:
            given_up = ('Outcome("failed", code="connection-broken"', 'Outcome("answer", code="connection-broken"')
            program(patch, given_up)
            assert "connection-broken" in failure(played(stage, "batch-server-preempted"), "an answer")
        with monkeypatch.context() as patch:
            forgets = ("done = set(self._stored(store))", "done = set()")
            program(patch, ("reserve = memory.servers", "reserve = 0 * memory.servers"), forgets)
            result = played(stage, "batch-limit")
            assert failure(result, "its estimate")
            assert not failure(result, "asked again").startswith("0 of")
