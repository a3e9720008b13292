from __future__ import annotations

import json
from pathlib import Path

from tests.fleet.bench.merge.folders import copied, edit
from tests.fleet.cli.command import fleet

CERTIFIED = {"requests_per_client": 260, "connections_per_client": 8, "repeats": 3, "seed": 0}


def test_a_slower_measurement_is_a_finding_and_the_same_is_none(tmp_path: Path) -> None:
    before = copied(tmp_path / "before", **CERTIFIED)
    slower = copied(tmp_path / "slower", **CERTIFIED | {"chunk_seconds": 0.06})
    assert fleet("bench", "compare", str(before), str(before)).returncode == 0
    done = fleet("bench", "compare", str(before), str(slower), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    compared = json.loads(done.stdout)
    assert compared["obstacles"] == []
    assert [one["verdict"] for one in compared["changes"] if one["quantity"] == "total tok/s"] == ["worse"]
    edit(before / "run.json", lambda run: run.update(prompts_per_client=261))
    assert fleet("bench", "compare", str(before), "nowhere").returncode == 2
