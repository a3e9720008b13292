from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE, AskedSlo
from fleet.bench.judged import judge, write
from fleet.bench.measurement import Judged, MergeOptions
from fleet.bench.report.source import judged_of, newest_input_ns
from tests.fleet.bench.made_up.results import make_measurement

NOW_NS = 1_795_000_000 * 10**9


def aged(folder: Path, seconds: int) -> None:
    """Every file and folder as old as that."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, ns=(NOW_NS - seconds * 10**9,) * 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_measurement(tmp_path / "measured", clients=2, requests_per_client=24, with_texts=False)
    aged(made, 100)
    return made


def put(folder: Path, judged: Judged, seconds: int) -> Path:
    path = folder / MERGED_FILE
    write(judged, path)
    os.utime(path, ns=(NOW_NS - seconds * 10**9,) * 2)
    return path


def marked(folder: Path, seconds: int) -> Path:
    """A merged.json that can be told from another merge."""
    path = put(folder, judge(folder), seconds)
    document = json.loads(path.read_bytes())
    document["certificate"]["headline"] = "Of the file."
    path.write_text(json.dumps(document))
    os.utime(path, ns=(NOW_NS - seconds * 10**9,) * 2)
    return path


def test_a_merged_file_is_read_with_the_options_it_was_made_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "point-00-repeat-0" / "client-001.json").unlink()
    monkeypatch.chdir(folder)
    judged = judge(Path(), MergeOptions(allow_missing=True, exclude=(f"{folder}/dcgm.json",), slo=AskedSlo(ttft_ms=9)))
    put(folder, judged, -(10**9))
    monkeypatch.chdir(folder.parent)
    assert judged_of(Path(folder.name)) == judged


def test_an_older_one_is_not_read_and_not_changed(folder: Path) -> None:
    merged = marked(folder, 150)
    before = merged.read_bytes()
    found = judged_of(folder)
    assert (len(found.measurement.runs[0].clients), found.certificate.verdict) == (2, "not certified")
    assert merged.read_bytes() == before


def test_one_newer_file_is_enough_to_merge_again(folder: Path) -> None:
    marked(folder, 50)
    os.utime(folder / "point-00-repeat-0" / "client-000.json", ns=(NOW_NS, NOW_NS))
    assert judged_of(folder) == judge(folder)


def test_a_file_taken_out_of_a_run_is_noticed(folder: Path) -> None:
    marked(folder, 50)
    (folder / "point-00-repeat-0" / "client-001.log").unlink()
    assert newest_input_ns(folder) > NOW_NS
    assert judged_of(folder) == judge(folder)


def test_a_merged_file_without_results_is_not_enough(folder: Path) -> None:
    put(folder, judge(folder), -(10**9))
    shutil.rmtree(folder / "point-00-repeat-0")
    for file in ("run.json", "dcgm.json"):
        (folder / file).unlink()
    with pytest.raises(BenchmarkError, match="has no client's result"):
        judged_of(folder)


def test_a_report_beside_the_inputs_is_none_of_them(folder: Path) -> None:
    marked(folder, 50)
    (folder / "report").mkdir()
    (folder / "report" / "report.html").write_text("later")
    (folder / "clients.png").write_bytes(b"later")
    (folder / ".progress").mkdir()
    (folder / ".progress" / "pod.json").write_text("{}")
    assert judged_of(folder).certificate.headline == "Of the file."


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"measurement": {"schema": 1}}', b'{"schema": true}', b'{"schema": 1}',
                                     b'{"schema": 2, "certificate": {}}', b'{"schema": NaN}', b"\xff\xfe"])  # fmt: skip
def test_a_merged_file_of_another_kind_is_named_with_what_to_do(folder: Path, content: bytes) -> None:
    (folder / MERGED_FILE).write_bytes(content)
    with pytest.raises(BenchmarkError) as failed:
        judged_of(folder)
    assert str(failed.value).startswith(f"{folder / MERGED_FILE}")
    assert f"fleet bench merge {folder}" in str(failed.value)


def test_a_folder_that_is_not_there_and_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"none: .*`fleet bench run`"):
        judged_of(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchmarkError, match="file: "):
        judged_of(tmp_path / "file")


def test_what_cannot_be_merged_says_why_and_once_how_to_leave_something_out(folder: Path) -> None:
    (folder / "point-00-repeat-0" / "client-001.json").write_text("{")
    with pytest.raises(BenchmarkError) as failed:
        judged_of(folder)
    told = str(failed.value)
    assert "client-001.json" in told
    way = f"fleet bench merge {folder} --exclude point-00-repeat-0/client-001.json"
    assert told.count(way) == 1


def test_what_is_missing_says_which_command_merges_without_it(folder: Path) -> None:
    (folder / "point-00-repeat-0" / "client-001.json").unlink()
    with pytest.raises(BenchmarkError) as failed:
        judged_of(folder)
    assert f"fleet bench merge {folder} --allow-missing" in str(failed.value)
    assert "--exclude" not in str(failed.value)


def test_an_empty_folder_is_refused_without_a_word_of_leaving_something_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BenchmarkError, match="empty ") as failed:
        judged_of(tmp_path / "empty")
    assert "--exclude" not in str(failed.value)
