from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.record import baseline_file
from tests.fleet.bench.merge.folders import client, copied, edit

CERTIFIED = {"requests_per_client": 260, "connections_per_client": 8, "repeats": 3, "seed": 0}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(tmp_path_factory.mktemp("certified"), **CERTIFIED)
    file = folder.parent / "baseline.json"
    baseline_file.write(file, baseline_file.stored(folder, 0, file))
    return file


@pytest.fixture
def file(measured: Path, tmp_path: Path) -> Path:
    shutil.copytree(measured.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / measured.name


def test_a_file_keeps_what_a_comparison_needs_and_names_its_results(file: Path) -> None:
    kept = json.loads(file.read_text())
    assert (kept["schema"], kept["certificate"], kept["results"]["folder"]) == (3, "certified", "measurement")
    assert "point-00-repeat-0/client-000.json" in kept["results"]["files"]
    assert len(kept["points"][0]["runs"]["total_tokens_per_s"]) == 3
    assert set(kept["points"][0]["latencies_ms"]) == {"ttft", "tpot", "itl", "e2e"}
    assert baseline_file.read(file).points[0].runs == {
        key: tuple(values) for key, values in kept["points"][0]["runs"].items()
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["points"][0]["runs"]["total_tokens_per_s"].__setitem__(0, 1.0), "points.0.runs.total_tokens_per_s.0"),
        (lambda one: one.update(lacks={"repeats": "not measured"}), "lacks.repeats"),
        (lambda one: one["shape"].update(engine_version="0.33.0"), "shape.engine_version"),
        (lambda one: one["points"].append(one["points"][0]), "points.1"),
        (lambda one: one["results"].update(folder="elsewhere"), "missing"),
        (lambda one: one["results"]["files"].clear(), "was added"),
        (lambda one: one["results"].pop("files"), "results.files"),
        (lambda one: one.pop("results"), "results"),
        (lambda one: one.update(point=True), "point"),
        (lambda one: one.update(schema=1), "schema 1"),
        (lambda one: one.pop("schema"), "no schema"),
    ],
)  # fmt: skip
def test_one_that_was_edited_is_refused(file: Path, change: Callable[[Any], Any], said: str) -> None:
    edit(file, change)
    with pytest.raises(BenchmarkError) as refused:
        baseline_file.read(file)
    assert said in str(refused.value)
    assert "fleet bench record DIR --baseline" in str(refused.value)


def test_results_that_changed_are_refused(file: Path) -> None:
    edit(client(file.parent / "measurement"), lambda one: one.update(tokenizer_id="other"))
    with pytest.raises(BenchmarkError, match=r"client-001\.json has changed"):
        baseline_file.read(file)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe", b'{"schema": 3, "name": NaN}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(text)
    with pytest.raises(BenchmarkError, match=r"is not a baseline.*fleet bench record DIR --baseline"):
        baseline_file.read(path)


def test_a_file_that_is_not_there_or_cannot_be_written_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"No such file.*fleet bench record DIR --baseline .*none\.json"):
        baseline_file.read(tmp_path / "none.json")
    with pytest.raises(BenchmarkError, match="cannot be written: No such file"):
        baseline_file.write(tmp_path / "none" / "baseline.json", baseline_file.read(file))
