from __future__ import annotations

from pathlib import Path

import pytest

from fleet.cli.bench.report import report
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.bench.measurements import a_bare_measurement, a_judged, compared
from tests.fleet.cli.command import fleet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bench") / "measured"
    return make_measurement(place, clients=2, requests_per_client=48, with_texts=False)


@pytest.mark.slow
def test_a_measurement_becomes_a_page_and_images(folder: Path) -> None:
    done = fleet("bench", "report", str(folder))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Not certified")
    paths = lines[lines.index("") + 1 :]
    assert paths[0] == str(folder / "report" / "report.html")
    assert all(Path(path).stat().st_size > 1_000 for path in paths)
    assert not (folder / "merged.json").exists()
    page = Path(paths[0]).read_text()
    assert "Benchmark of dev: 2 nodes" in page
    assert f"fleet bench report {folder}" in page


@pytest.mark.slow
def test_out_names_another_folder(folder: Path, tmp_path: Path) -> None:
    done = fleet("bench", "report", str(folder), "--out", str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "report.html").is_file()


def test_what_is_worse_than_its_baseline_is_said_beside_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = compared("total tok/s", "regressed", -0.1, why="beyond noise")
    judged = a_judged(a_bare_measurement())
    outcomes = iter((judged.model_copy(update={"comparisons": (worse,)}), judged))
    monkeypatch.setattr("fleet.bench.report.source.judged_of", lambda _: next(outcomes))
    assert report(tmp_path) == 0
    headline, against, *_ = capsys.readouterr().out.splitlines()
    assert headline == judged.certificate.headline
    assert "bench-1" in against
    assert "total tok/s \N{MINUS SIGN}10.0 %" in against
    report(tmp_path)
    assert against not in capsys.readouterr().out


def test_wrong_input_is_one_message(tmp_path: Path) -> None:
    done = fleet("bench", "report", "no-such-folder", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("fleet: no-such-folder: ")
    assert done.stdout == ""


@pytest.mark.slow
def test_a_folder_that_may_not_be_written_to_is_one_message(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fleet("bench", "report", str(folder), "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"fleet: {tmp_path / 'file'}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
