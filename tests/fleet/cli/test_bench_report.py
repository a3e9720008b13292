from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from tests.fleet.bench.certificate.sound import CERTIFIED
from tests.fleet.bench.merge.folders import copied, sound
from tests.fleet.cli.command import fleet


def drawings(page: Path) -> list[str]:
    """The classes of a page's drawings, which are in it: the page asks for nothing."""
    text = page.read_text(encoding="utf-8")
    assert "http-equiv" in text or "src=" not in text
    found = [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return [one.get("class", "") for one in found]


def test_a_certified_measurement_is_clean_and_becomes_a_page(tmp_path: Path) -> None:
    folder = copied(tmp_path, repeats=3, **CERTIFIED)
    done = fleet("bench", "report", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"page: {folder / 'report.html'}\n")
    assert drawings(folder / "report.html") == 3 * ["wide", "narrow"]  # by nodes, over time, latencies


def test_several_are_one_document_and_a_finding_is_told_by_the_exit_code(tmp_path: Path) -> None:
    folders = [str(sound(repeats=3, **CERTIFIED)), str(sound())]
    done = fleet("bench", "report", *folders, "--out", str(tmp_path / "deep" / "page.html"), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)["measurements"]
    assert [one["certificate"]["verdict"] for one in found] == ["certified", "not certified"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]
    assert drawings(tmp_path / "deep" / "page.html") == 6 * ["wide", "narrow"]  # by nodes and load, and two of each


def test_a_page_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fleet("bench", "report", str(sound()), "--out", str(tmp_path / "file" / "page.html"))
    assert (done.returncode, done.stderr.startswith(f"fleet: {tmp_path / 'file' / 'page.html'}: ")) == (2, True)
