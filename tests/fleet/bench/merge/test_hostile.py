"""Files that would never end, or that unpack and nest without bound, are named like any other damaged one."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from fleet.bench.merge import client_file, layout, servers


def test_a_small_file_that_unpacks_to_a_huge_one_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_MOST_BYTES", 1_000)
    bomb = tmp_path / "server-metrics.jsonl.gz"
    bomb.write_bytes(gzip.compress(b"0" * 1_000_000))
    samples, (problem,) = servers.read_samples(bomb, bomb.name)
    assert (samples, problem.reason, problem.file) == ([], "not-a-sample", bomb.name)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 2_000 + "]" * 2_000])
def test_a_deep_result_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "client-000.json"
    file.write_text(text)
    results, (problem,) = client_file.read_results(file, file.name)
    assert results == []
    assert problem.file == file.name


def test_pipes_are_no_files_of_a_measurement(tmp_path: Path) -> None:
    run = tmp_path / "point-00-repeat-0"
    for pipe in ("run.json", f"{run.name}/client-000.json", layout.DCGM_FILE):
        (tmp_path / pipe).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / pipe)
    found = layout.find(tmp_path, layout.Choice((), tmp_path), allow_missing=True)
    assert (found.asked, found.dcgm) == (None, None)
    assert [one.results for one in found.runs] == [()]
