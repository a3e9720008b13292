"""DCGM's series of a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.bench.folder import DcgmSeries
from fleet.bench.measurement import Gpus
from fleet.bench.merge import merge_folder
from fleet.bench.merge.gpus import _DCGM, gpus_of_run, of_dcgm
from fleet.bench.report.tables import GPU_ROWS
from fleet.clients.prometheus import GAUGES
from tests.fleet.bench.merge.folders import copied, sound

AT = 1_780_000_000.0
WINDOW = (AT - 1, AT + 5)


def _of(metric: str, samples: list[list[float]], **labels: str) -> dict[str, Any]:
    return {"metric": metric, "labels": labels, "samples": samples}


POWER = [_of("DCGM_FI_DEV_POWER_USAGE", [[AT, 600.0 + gpu], [AT + 15, 1.0]], UUID=f"GPU-{gpu}") for gpu in range(4)]
TENSOR = _of("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", [[AT, 0.4]], gpu="0", Hostname="n")


def _gpus(*series: dict[str, Any], later: float = 0.0) -> Gpus:
    file = DcgmSeries.model_validate({"schema": 1, "series": series}, strict=False)
    window = (WINDOW[0] + later, WINDOW[1] + later)
    gpus = gpus_of_run(of_dcgm(file), window=window, problem=None)
    assert gpus is not None
    return gpus


def test_readings_are_over_all_gpus_in_the_window() -> None:
    gpus = _gpus(*POWER, TENSOR)
    readings = {reading.name: (reading.mean, reading.peak, reading.gpus) for reading in gpus.readings}
    assert readings == {"power_watts": (601.5, 603.0, 4), "tensor_active_share": (0.4, 0.4, 1)}


def test_the_series_that_are_collected_have_names_and_titles_and_no_others() -> None:
    assert set(_DCGM) == set(GAUGES)
    assert {name for name, _, _ in GPU_ROWS} < set(_DCGM.values())


def test_readings_of_another_time_are_said_to_be() -> None:
    gpus = _gpus(*POWER, later=7200.0)
    assert gpus.readings == ()
    assert gpus.problem is not None
    assert "clock" in gpus.problem


def test_a_runs_readings_lie_in_its_window(tmp_path: Path) -> None:
    run = merge_folder(sound()).runs[0]
    assert run.gpus is not None
    (power,) = (reading for reading in run.gpus.readings if reading.name == "power_watts")
    assert (power.mean, power.gpus) == (pytest.approx(721, rel=0.01), 16)  # 181 outside the run
    folder = copied(tmp_path)
    (folder / "dcgm.json").write_text(
        '{"schema": 1, "series": [], "problem": "managed Prometheus said 403"}', encoding="utf-8"
    )
    lacking = merge_folder(folder).runs[0].gpus
    assert lacking is not None
    assert lacking.readings == ()
    assert lacking.problem == "managed Prometheus said 403"
    assert merge_folder(sound(with_gpu=False)).runs[0].gpus is None
