"""The report on measurements: what stands in it. The page with its plots: tests/fleet/cli/test_bench_report.py."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

from fleet.bench.folder import AskedWorkload
from fleet.bench.report import article, plots, tables
from fleet.bench.report.outline import Measured, measured, outline
from fleet.report.as_text import print_text
from fleet.report.outline import Outline
from fleet.report.terminal import Paper
from tests.fleet.bench.certificate.sound import CERTIFIED
from tests.fleet.bench.merge import folders

SOUND = measured(folders.sound(repeats=3, **CERTIFIED))


def _text(report: Outline) -> str:
    stream = StringIO()
    print_text(Paper(stream=stream, width=100, styled=False), report)
    return stream.getvalue()


def _named(one: Measured) -> Measured:
    """With a folder that is the same on every machine."""
    return Measured(Path("out/runs/bench-1"), one.measurement, one.certificate)


def test_a_certified_measurement_in_text(golden: Callable[[str, str], None]) -> None:
    golden("bench/report.txt", _text(outline([_named(SOUND)])))


def test_several_measurements_stand_in_one_table_and_one_plot() -> None:
    eight = measured(folders.sound(repeats=3, servers=8, clients=8, **CERTIFIED))
    together = [SOUND.measurement, eight.measurement]
    rows = tables.loads(together).rows
    assert [row[0].text for row in rows] == ["2", "8"]
    assert len(outline([SOUND, eight]).body) == 3


def test_the_table_of_gpu_activity_may_be_empty_and_is_never_absent() -> None:
    full = tables.gpus(SOUND.run, "a4-highgpu-8g")
    assert {row[0].text: row[1].text for row in full.rows}["power"] == "721 W"
    empty = tables.gpus(SOUND.run.model_copy(update={"gpus": None, "server": None}), "unknown")
    assert [row[0].text for row in empty.rows] == [row[0].text for row in full.rows]
    assert {cell.text for row in empty.rows for cell in row[1:]} == {"–"}


def test_mfu_is_a_share_of_the_gpus_fp8_peak() -> None:
    server = SOUND.run.server
    assert server is not None
    engines = tuple(one.model_copy(update={"tflops_mean": 395.0}) for one in server.engines)
    run = SOUND.run.model_copy(update={"server": server.model_copy(update={"engines": engines})})
    (mfu,) = [row[1].text for row in tables.gpus(run, "a4-highgpu-8g").rows if row[0].text == "MFU"]
    assert mfu == "8.8 %"  # of 4,500 dense TFLOP/s; the article's 4.4 % are of the sparse 9,000


def test_two_drawings_of_a_measurement_are_equal_and_others_for_screen_and_phone() -> None:
    plot = plots.over_time(SOUND.run)
    wide, narrow = plot("wide"), plot("narrow")
    assert wide == plot("wide") != narrow
    assert ElementTree.fromstring(wide).get("class") == "wide"
    assert ElementTree.fromstring(narrow).get("class") == "narrow"


def test_the_articles_rows_are_shown_for_its_workload_alone() -> None:
    asked = SOUND.measurement.asked
    assert article.published(asked).rows
    other = AskedWorkload(name="trace", kind="trace", arguments={}, ignore_eos=True)
    found = article.published(asked.model_copy(update={"workload": other}))
    assert (found.rows, found.latency) == ((), None)
    assert "workload" in found.why_not
