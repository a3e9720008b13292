from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE
from fleet.bench.measurement import Judged
from fleet.bench.merge import merge_folder
from fleet.bench.report.source import judged_of, newest_input_ns
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.bench.measurements import a_judged, a_measurement, an_asked

NOW_NS = 1_795_000_000 * 10**9


def aged(folder: Path, seconds: int) -> None:
    """Every file and folder as old as that."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, ns=(NOW_NS - seconds * 10**9,) * 2)


def small() -> Judged:
    return a_judged(a_measurement(an_asked(replicas=1, repeats=1), collected=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_measurement(tmp_path / "measured", clients=2, requests_per_client=24, with_texts=False)
    aged(made, 100)
    return made


def put(folder: Path, judged: Judged, seconds: int) -> Path:
    path = folder / MERGED_FILE
    path.write_text(judged.model_dump_json(by_alias=True))
    os.utime(path, ns=(NOW_NS - seconds * 10**9,) * 2)
    return path


def test_a_merged_file_newer_than_every_input_is_taken_as_it_is(folder: Path) -> None:
    put(folder, small(), 50)
    assert judged_of(folder) == small()


def test_an_older_one_is_not_believed_and_not_changed(folder: Path) -> None:
    merged = put(folder, small(), 150)
    before = merged.read_bytes()
    found = judged_of(folder)
    assert len(found.measurement.runs[0].clients) == 2
    assert found.certificate.checks
    assert merged.read_bytes() == before


def test_one_newer_file_is_enough_to_merge_again(folder: Path) -> None:
    put(folder, small(), 50)
    os.utime(folder / "point-00-repeat-0" / "client-000.json", ns=(NOW_NS, NOW_NS))
    assert judged_of(folder) != small()


def test_a_file_taken_out_of_a_run_is_noticed(folder: Path) -> None:
    put(folder, small(), 50)
    (folder / "point-00-repeat-0" / "client-001.log").unlink()
    assert newest_input_ns(folder) > NOW_NS
    assert judged_of(folder) != small()


def test_a_run_taken_out_whole_is_noticed(tmp_path: Path) -> None:
    folder = make_measurement(tmp_path / "measured", clients=1, requests_per_client=24, repeats=2, with_texts=False)
    both = merge_folder(folder)
    judged = small().model_copy(update={"measurement": both})
    put(folder, judged, -(10**9))
    assert judged_of(folder) == judged
    shutil.rmtree(folder / "point-00-repeat-1")
    with pytest.raises(BenchmarkError, match="point-00-repeat-1"):
        judged_of(folder)
    shutil.rmtree(folder / "point-00-repeat-0")
    assert judged_of(folder) == judged, "merged.json that was kept without what it was made of"


def test_a_report_beside_the_inputs_is_none_of_them(folder: Path) -> None:
    put(folder, small(), 50)
    (folder / "report").mkdir()
    (folder / "report" / "report.html").write_text("later")
    (folder / "clients.png").write_bytes(b"later")
    (folder / ".progress").mkdir()
    (folder / ".progress" / "pod.json").write_text("{}")
    assert judged_of(folder) == small()


def test_a_merged_file_alone_is_enough(tmp_path: Path) -> None:
    put(tmp_path, small(), 0)
    assert judged_of(tmp_path) == small()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "the whole file"),
        (b"[]", "the whole file"),
        (b'{"measurement": {"schema": 2}}', "measurement.schema"),
        (b"\xff\xfe", "the whole file"),
    ],
)
def test_a_merged_file_of_another_kind_is_named_with_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / MERGED_FILE).write_bytes(content)
    with pytest.raises(BenchmarkError) as failed:
        judged_of(tmp_path)
    assert str(failed.value).startswith(f"{tmp_path / MERGED_FILE}: {said}")
    assert f"fleet bench merge {tmp_path}" in str(failed.value)


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
