from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Judged
from fleet.bench.report.write import write_report
from tests.fleet.bench.measurements import a_bare_measurement, a_judged, a_measurement, an_asked


@pytest.fixture(scope="module")
def small() -> Judged:
    return a_judged(a_bare_measurement())


def test_the_page_is_written(small: Judged, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    mask = os.umask(0o027)
    try:
        written = write_report(small, out, source=Path("bench/one"))
    finally:
        os.umask(mask)
    assert list(out.iterdir()) == [written]
    assert stat.S_IMODE(written.stat().st_mode) == 0o640  # what the mask leaves
    assert written.read_text().startswith("<!doctype html>")


def test_a_write_that_fails_leaves_the_old_page_and_nothing_half(
    small: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.html").write_text("the old page")

    def full(*_: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BenchmarkError, match="No space left"):
        write_report(small, tmp_path, source=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "the old page"


def test_a_place_that_cannot_be_written_to_is_named(small: Judged, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchmarkError, match="--out"):
        write_report(small, tmp_path / "file" / "report", source=tmp_path)


def test_names_that_are_no_unicode_are_written_all_the_same(tmp_path: Path) -> None:
    odd = a_measurement(an_asked(repeats=1, stack="\ud800"), collected=False)
    assert "Benchmark of ?" in write_report(a_judged(odd), tmp_path, source=tmp_path).read_text()


@pytest.mark.slow
def test_the_largest_report_takes_a_second_or_two(tmp_path: Path) -> None:
    judged = a_judged()
    began = time.process_time()
    written = write_report(judged, tmp_path, source=tmp_path)
    assert time.process_time() - began < 6, "seconds of CPU; measured: 1.6 on one core with other work"
    assert written.stat().st_size < 1_500_000
