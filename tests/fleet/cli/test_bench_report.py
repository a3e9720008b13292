from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.bench.made_up.results import make_measurement
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
