from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Judged
from fleet.bench.report import article, write
from fleet.bench.report.headline import caption
from fleet.bench.report.plots import plots_of
from fleet.bench.report.shown import shown
from fleet.bench.report.write import write_report
from tests.fleet.bench.measurements import a_bare_measurement, a_certificate, a_judged, a_measurement, a_sweep, an_asked


@pytest.fixture(scope="module")
def small() -> Judged:
    return a_judged(a_bare_measurement())


def test_the_page_and_an_image_of_every_plot_are_written(small: Judged, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    mask = os.umask(0o027)
    try:
        written = write_report(small, out, source=Path("bench/one"))
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o640}  # what the mask leaves
    assert [path.name for path in written] == [
        "report.html",
        "latency.png",
        "throughput-time.png",
        "in-flight.png",
        "clients.png",
    ]
    assert sorted(out.iterdir()) == sorted(written)
    page = written[0].read_text()
    assert page.startswith("<!doctype html>")
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in written[1:])


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


def said(judged: Judged) -> dict[str, str]:
    found = shown(judged.measurement)
    plots = plots_of(found, article.published(judged.measurement.asked))
    return {plot.id: caption(judged, found, plot) for plot in plots}


def test_an_image_says_which_load_and_run_it_is_of_and_whether_it_is_certified() -> None:
    captions = said(a_judged(a_sweep()))
    run = shown(a_sweep()).run.repeat + 1
    begin = "Benchmark of spot: 4 nodes, workload article, bench-20261121-a1b2c3d4"
    published = "; published rows: 2,000 in flight on a node"
    assert captions == {
        "throughput-nodes": f"{begin}, 8,000 in flight, 3 repeats{published} · certified",
        "throughput-load": f"{begin}, 4 loads, 3 repeats · certified",
        "latency": f"{begin}, 8,000 in flight, 3 repeats{published} · certified",
        "runs": f"{begin}, 4 loads, 3 repeats · certified",
        **dict.fromkeys(
            ("throughput-time", "in-flight", "clients", "engines", "cache-queue", "power"),
            f"{begin}, 8,000 in flight, repeat {run} · certified",
        ),
    }
    one = a_measurement(an_asked(repeats=1), collected=False)
    captions = said(a_judged(one, a_certificate(failed=("errors",))))
    assert captions["throughput-time"].endswith(", 24,000 in flight · NOT CERTIFIED")
    bare = said(a_judged(a_bare_measurement()))
    assert "unknown stack" in bare["latency"]
    assert bare["latency"].endswith(", 4,000 in flight · certified")


def test_images_of_an_earlier_report_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "png", lambda *_: b"an image")
    full = a_judged(a_measurement(an_asked(replicas=1, repeats=2)))
    before = write_report(full, tmp_path, source=Path("bench/one"))
    (tmp_path / "mine.png").write_bytes(b"a slide")
    after = write_report(a_judged(a_bare_measurement()), tmp_path, source=Path("bench/two"))
    assert {path.name for path in before} > {path.name for path in after}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in after} | {"mine.png"}


def test_a_folder_without_a_report_loses_nothing(
    small: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "png", lambda *_: b"an image")
    (tmp_path / "power.png").write_bytes(b"of something else")
    write_report(small, tmp_path, source=Path("bench/one"))
    assert (tmp_path / "power.png").read_bytes() == b"of something else"


def test_names_that_are_no_unicode_are_written_all_the_same(tmp_path: Path) -> None:
    odd = a_measurement(an_asked(repeats=1, stack="\ud800"), collected=False)
    assert "Benchmark of ?" in write_report(a_judged(odd), tmp_path, source=tmp_path)[0].read_text()


@pytest.mark.slow
def test_the_largest_report_takes_a_second_or_two(tmp_path: Path) -> None:
    judged = a_judged()
    began = time.process_time()
    written = write_report(judged, tmp_path, source=tmp_path)
    assert time.process_time() - began < 6, "seconds of CPU; measured: 1.6 on one core with other work"
    assert written[0].stat().st_size < 1_500_000
    assert written[0].name == write.PAGE
