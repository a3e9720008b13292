"""nvidia-smi dmon in the spellings of several drivers, DCGM's series, and the energy that follows."""

from __future__ import annotations

import calendar
import re
from pathlib import Path

import pytest

from fleet.bench.merge import merge_folder
from fleet.bench.merge.gpus import DmonFile, gpus_of_run, of_dcgm, read_dmon
from tests.fleet.bench.merge.folders import copied, sound

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
    read = _read(tmp_path, NEW)
    assert (read.problems, read.remarks) == ([], [])
    found = _gpus(read.series)
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
    readings = {one.name: one.mean for one in _gpus(_read(tmp_path, OLD).series).readings}
    assert readings == {
        "power_watts": 251.0, "temperature_celsius": 48.0, "sm_percent": 92.0, "memory_percent": 40.0,
        "memory_clock_mhz": 2619.0, "sm_clock_mhz": 1980.0,
    }  # fmt: skip


def test_times_without_a_date_are_of_the_day_of_the_run(tmp_path: Path) -> None:
    readings = _gpus(_read(tmp_path, TIME_ONLY).series).readings
    assert [(one.name, one.mean) for one in readings] == [("power_watts", 505.0)]


def test_a_last_row_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    read = _read(tmp_path, NEW + " 20260528   20:26:42      0    7")
    assert (read.problems, read.remarks) == ([], [])
    assert max(len(one.values) for one in read.series) == 2


def _lines(unfit: int, rows: int, bad: str = "exit") -> str:
    """That many rows of one GPU, of which so many do not fit, spread over the file."""
    row = (
        " 20260528   20:26:{:02d}      0    702     55     66     99     60      0      0      0      0   3996   1830\n"
    )
    cut = {number * rows // max(unfit, 1) for number in range(unfit)}
    text = "".join(f"{bad}\n" if number in cut else row.format(number % 60) for number in range(rows))
    return f"{NEW.splitlines()[0]}\n{text}{row.format(59)}"


@pytest.mark.parametrize(
    ("unfit", "rows", "kept"), [(1, 3, True), (2, 3, False), (1, 250, True), (2, 250, True), (2, 198, False), (3, 250, False)]
)  # fmt: skip
def test_a_few_rows_that_do_not_fit_are_left_out_and_many_are_a_problem(
    tmp_path: Path, unfit: int, rows: int, kept: bool
) -> None:
    read = _read(tmp_path, _lines(unfit, rows))
    if kept:
        assert read.problems == []
        (remark,) = read.remarks
        assert re.findall(r"^dmon-vllm-0\.txt: (\d+) .* (\d+)$", remark) == [(str(unfit), str(rows + 1))]
        assert {len(one.values) for one in read.series} == {rows + 1 - unfit}
    else:
        assert (read.series, read.remarks) == ([], [])
        assert read.problems[0].found.startswith(f"{unfit} of {rows + 1} rows ")


@pytest.mark.parametrize(
    "bad",
    [
        " 20260528   20:26:42      0    7#Date       Time        gpu    pwr  gtemp",
        " 20260528   20:26:4" + NEW.splitlines()[2],
        NEW.splitlines()[2].replace("702", "7O2"),
    ],
)
def test_a_row_that_a_broken_exec_cut_is_left_out(tmp_path: Path, bad: str) -> None:
    read = _read(tmp_path, _lines(1, 9, bad))
    assert len(read.remarks) == 1
    assert {len(one.values) for one in read.series} == {9}


def test_rows_left_out_are_a_remark_of_the_measurement_which_is_merged(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    file = folder / "gpu" / "dmon-vllm-0.txt"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([*lines[:40], lines[40][:30], *lines[40:]]), encoding="utf-8")
    merged, whole = merge_folder(folder), merge_folder(sound())
    rows = sum(not line.startswith("#") for line in lines)
    (told,) = set(merged.remarks) - set(whole.remarks)
    assert re.fullmatch(rf"gpu/dmon-vllm-0\.txt: 1 row .* {rows}", told)
    gpus = merged.runs[0].gpus
    assert gpus is not None
    assert gpus.problem is None
    assert {one.gpus for one in gpus.readings if one.source == "nvidia-smi dmon"} == {16}


def test_a_file_without_a_header_has_no_reading(tmp_path: Path) -> None:
    for text in ("", "cannot run\nno such file\nexit\n"):
        assert _read(tmp_path, text).problems[0].found == "no reading"


def test_a_header_without_rows_keeps_no_measurement_from_its_merge(tmp_path: Path) -> None:
    """What a collector leaves that was started just before the end, or whose dmon ended by itself."""
    header = "".join(line for line in NEW.splitlines(keepends=True) if line.startswith("#"))
    dashes = "".join(line if line.startswith("#") else line[:22] + "  0" + "  -" * (len(line.split()) - 3) + "\n"
                     for line in NEW.splitlines(keepends=True))  # fmt: skip
    for text in (header, dashes):
        assert _read(tmp_path, text) == DmonFile(series=[], problems=[], remarks=[])
    folder = copied(tmp_path)
    (folder / "gpu" / "dmon-vllm-1.txt").write_text(header, encoding="utf-8")
    gpus = merge_folder(folder).runs[0].gpus
    assert gpus is not None
    assert gpus.problem == "gpu/dmon-vllm-1.txt has no reading"
    assert gpus.watt_hours_per_million_tokens is not None, "DCGM has all of them"


def test_energy_needs_every_gpu(tmp_path: Path) -> None:
    series = _read(tmp_path, NEW).series
    assert _gpus(series, expected=2).watt_hours_per_million_tokens == pytest.approx(1400.0 / 3600 / 1000 * 1e6)
    short = _gpus(series, expected=16)
    assert short.watt_hours_per_million_tokens is None
    assert re.findall(r"\d+", short.problem) == ["2", "16"]


def test_readings_of_another_time_are_said_to_be(tmp_path: Path) -> None:
    series = _read(tmp_path, NEW.replace("20:26", "22:26")).series
    found = _gpus(series)
    assert found.readings == ()
    assert "time zone" in found.problem


def test_dcgms_series() -> None:
    from fleet.bench.folder import DcgmSeries

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
        },
        strict=False,
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
    assert lacking.problem is not None
    assert lacking.problem.startswith("managed Prometheus said 403; ")
    assert re.findall(r"\d+", lacking.problem) == ["403", "8", "16"]
    assert merge_folder(sound(with_gpu=False)).runs[0].gpus is None
