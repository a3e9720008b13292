"""nvidia-smi dmon in the spellings of several drivers, DCGM's series, and the energy that follows."""

from __future__ import annotations

import calendar
from pathlib import Path

import pytest

from benchmark.merge import merge_folder
from benchmark.merge.gpus import gpus_of_run, of_dcgm, read_dmon
from tests.benchmark.merge.folders import copied, sound

# Header lines as drivers 535 and 570 print them, one with and one without the newer columns.
NEW = """#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
 20260528   20:26:40      0    702     55     66     99     60      0      0      0      0   3996   1830
 20260528   20:26:40      1    698     54      -     97     58      0      0      0      0   3996   1830
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
 20260528   20:26:41      0    710     55     66     99     60      0      0      0      0   3996   1830
 20260528   20:26:41      1    690     54      -     97     58      0      0      0      0   3996   1830
"""
OLD = """# Date        Time     gpu   pwr  temp    sm   mem   enc   dec  mclk  cclk
# YYYYMMDD  HH:MM:SS    Idx     W     C     %     %     %     %   MHz   MHz
  20260528  20:26:40      0   250    48    91    40     0     0  2619  1980
  20260528  20:26:41      0   252    48    93    40     0     0  2619  1980
"""
TIME_ONLY = """#Time        gpu    pwr
#HH:MM:SS    Idx      W
 20:26:40      0    500
 20:26:41      0    510
"""
AT = float(calendar.timegm((2026, 5, 28, 20, 26, 40)))
WINDOW = (AT - 1, AT + 5)


def _read(tmp_path: Path, text: str, name: str = "dmon-vllm-0.txt"):  # noqa: ANN202
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_dmon(tmp_path / name, name)


def _gpus(series, expected: int | None = None, rate: float = 1000.0):  # noqa: ANN001, ANN202
    return gpus_of_run(series, window=WINDOW, whole=WINDOW, total_tokens_per_s=rate, expected=expected, problem=None)


def test_columns_are_found_by_their_header(tmp_path: Path) -> None:
    series, problems = _read(tmp_path, NEW)
    assert problems == []
    found = _gpus(series)
    readings = {one.name: one for one in found.readings}
    assert (readings["power_watts"].mean, readings["power_watts"].peak, readings["power_watts"].gpus) == (
        700.0,
        710.0,
        2,
    )
    assert readings["sm_percent"].mean == 98.0
    assert readings["sm_clock_mhz"].mean == 1830.0
    assert readings["memory_temperature_celsius"].gpus == 1, "a dash is no reading"
    assert found.timeline.watts == (1400.0, 1400.0)
    assert found.timeline.at == (1.0, 2.0)


def test_older_drivers_columns(tmp_path: Path) -> None:
    readings = {one.name: one.mean for one in _gpus(_read(tmp_path, OLD)[0]).readings}
    assert readings == {
        "power_watts": 251.0, "temperature_celsius": 48.0, "sm_percent": 92.0, "memory_percent": 40.0,
        "memory_clock_mhz": 2619.0, "sm_clock_mhz": 1980.0,
    }  # fmt: skip


def test_times_without_a_date_are_of_the_day_of_the_run(tmp_path: Path) -> None:
    readings = _gpus(_read(tmp_path, TIME_ONLY)[0]).readings
    assert [(one.name, one.mean) for one in readings] == [("power_watts", 505.0)]


def test_a_last_row_that_was_cut_is_passed_over_and_any_other_is_named(tmp_path: Path) -> None:
    series, problems = _read(tmp_path, NEW + " 20260528   20:26:42      0    7")
    assert problems == []
    assert max(len(one.values) for one in series) == 2
    _, problems = _read(tmp_path, NEW.replace("698     54", "698"))
    assert "1 rows do not fit" in problems[0].found
    _, problems = _read(tmp_path, "")
    assert "no reading" in problems[0].found


def test_a_header_without_rows_keeps_no_measurement_from_its_merge(tmp_path: Path) -> None:
    """What a collector leaves that was started just before the end, or whose dmon ended by itself."""
    header = "".join(line for line in NEW.splitlines(keepends=True) if line.startswith("#"))
    dashes = "".join(line if line.startswith("#") else line[:22] + "  0" + "  -" * (len(line.split()) - 3) + "\n"
                     for line in NEW.splitlines(keepends=True))  # fmt: skip
    for text in (header, dashes):
        assert _read(tmp_path, text) == ([], [])
    folder = copied(tmp_path)
    (folder / "gpu" / "dmon-vllm-1.txt").write_text(header, encoding="utf-8")
    gpus = merge_folder(folder).runs[0].gpus
    assert gpus is not None
    assert gpus.problem == "gpu/dmon-vllm-1.txt has no reading"
    assert gpus.watt_hours_per_million_tokens is not None, "DCGM has all of them"


def test_energy_needs_every_gpu(tmp_path: Path) -> None:
    series, _ = _read(tmp_path, NEW)
    assert _gpus(series, expected=2).watt_hours_per_million_tokens == pytest.approx(1400.0 / 3600 / 1000 * 1e6)
    short = _gpus(series, expected=16)
    assert short.watt_hours_per_million_tokens is None
    assert "the power of 2 GPUs was read, of 16" in short.problem


def test_readings_of_another_time_are_said_to_be(tmp_path: Path) -> None:
    series, _ = _read(tmp_path, NEW.replace("20:26", "22:26"))
    found = _gpus(series)
    assert found.readings == ()
    assert "time zone" in found.problem


def test_dcgms_series() -> None:
    from benchmark.folder import DcgmSeries

    file = DcgmSeries.model_validate(
        {
            "schema": 1,
            "series": [
                {
                    "metric": "DCGM_FI_DEV_POWER_USAGE",
                    "labels": {"UUID": f"GPU-{i}"},
                    "samples": [[AT, 600.0 + i], [AT + 15, 1.0]],
                }
                for i in range(4)
            ]
            + [
                {
                    "metric": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                    "labels": {"gpu": "0", "Hostname": "n"},
                    "samples": [[AT, 0.4]],
                }
            ],
        }
    )
    readings = {one.name: one for one in _gpus(of_dcgm(file), expected=4).readings}
    assert readings["power_watts"].mean == 601.5
    assert readings["power_watts"].peak == 603.0
    assert readings["power_watts"].gpus == 4
    assert readings["tensor_active_share"].mean == 0.4


def test_a_runs_readings_lie_in_its_window(tmp_path: Path) -> None:
    run = merge_folder(sound()).runs[0]
    assert run.gpus is not None
    power = {one.source: one for one in run.gpus.readings if one.name == "power_watts"}
    assert power["nvidia-smi dmon"].mean == pytest.approx(720, rel=0.01)  # 180 outside the run
    assert power["DCGM"].gpus == 16
    assert run.steady is not None
    wanted = 16 * power["nvidia-smi dmon"].mean / 3600 / run.steady.total_tokens_per_s * 1e6
    assert run.gpus.watt_hours_per_million_tokens == pytest.approx(wanted)
    folder = copied(tmp_path)
    (folder / "gpu" / "dmon-vllm-1.txt").unlink()
    (folder / "dcgm.json").write_text(
        '{"schema": 1, "series": [], "problem": "managed Prometheus said 403"}', encoding="utf-8"
    )
    lacking = merge_folder(folder).runs[0].gpus
    assert lacking is not None
    assert lacking.watt_hours_per_million_tokens is None
    assert (
        lacking.problem
        == "managed Prometheus said 403; the power of 8 GPUs was read, of 16: energy per token is not known"
    )
    assert merge_folder(sound(with_gpu=False)).runs[0].gpus is None
