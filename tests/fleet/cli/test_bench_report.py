from __future__ import annotations

import json
from pathlib import Path

from tests.fleet.bench.certificate.sound import CERTIFIED
from tests.fleet.bench.merge.folders import copied, sound
from tests.fleet.cli.command import fleet


def test_a_certified_measurement_is_clean_and_becomes_a_page(tmp_path: Path) -> None:
    folder = copied(tmp_path, repeats=3, **CERTIFIED)
    done = fleet("bench", "report", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"page: {folder / 'report.html'}\n")
    assert (folder / "report.html").stat().st_size > 1_000


def test_several_are_one_document_and_a_finding_is_told_by_the_exit_code(tmp_path: Path) -> None:
    folders = [str(sound(repeats=3, **CERTIFIED)), str(sound())]
    done = fleet("bench", "report", *folders, "--out", str(tmp_path / "page.html"), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)["measurements"]
    assert [one["certificate"]["verdict"] for one in found] == ["certified", "not certified"]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_wrong_input_is_one_message(tmp_path: Path) -> None:
    done = fleet("bench", "report", "no-such-folder", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fleet: no-such-folder ")
    (tmp_path / "file").write_text("")
    done = fleet("bench", "report", str(sound()), "--out", str(tmp_path / "file" / "page.html"))
    assert (done.returncode, done.stderr.startswith(f"fleet: {tmp_path / 'file' / 'page.html'}: ")) == (2, True)
