"""`fleet rollout judge --results`: two folders of results that lie here, judged without a cloud."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import VERDICT_FILE
from fleet.cli.exits import CommandError
from fleet.cli.judge import _limits
from fleet.rollout.judge.answers import ANSWERS_FILE
from fleet.rollout.judge.judging import judge_folders, read
from fleet.rollout.judge.verdict import Limits, declaration_of
from tests.fleet.bench.made_up.results import BEGAN, make_measurement
from tests.fleet.bench.merge.folders import edit
from tests.fleet.cli.command import fleet
from tests.fleet.rollout.judge.sides import answers, decided_by


def side(folder: Path, seed: int, chunk_seconds: float = 0.03, **options: Any) -> Path:
    """Two measurements of two runs each, and answers."""
    for number in (1, 2):
        make_measurement(
            folder / f"{number}-made",
            requests_per_client=240,
            repeats=2,
            servers=1,
            with_texts=False,
            with_gpu=False,
            chunk_seconds=chunk_seconds,
            seed=seed + number,
            name=f"bench-{seed + number:08d}",
            **{"began": BEGAN + 1_000 * (seed + number), **options},
        )
    (folder / ANSWERS_FILE).write_text(answers().model_dump_json(by_alias=True))
    return folder


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both sides and the verdict of the command."""
    place = tmp_path_factory.mktemp("judged")
    old, canary = side(place / "old", 10), side(place / "canary", 20)
    wide = ("--limit", "ttft=50", "--limit", "throughput=5")
    done = fleet("rollout", "judge", "--stack", "dev", "--results", str(old), str(canary), *wide, "--format", "json")
    # Loud about results of something else than the stack file declares.
    assert (done.returncode, "stack dev: the servers and the canary" in done.stderr) == (0, True)
    assert json.loads(done.stdout) == json.loads((place / VERDICT_FILE).read_text())
    return place


@pytest.fixture
def verdict_file(judged: Path, tmp_path: Path) -> Path:
    shutil.copytree(judged, tmp_path, dirs_exist_ok=True)
    return tmp_path / VERDICT_FILE


def test_results_are_judged_offline_and_the_verdict_is_kept(verdict_file: Path) -> None:
    kept, canary = read(verdict_file), verdict_file.parent / "canary"
    assert "throughput=5, ttft=50" in kept.headline
    assert (kept.verdict, len(kept.old), kept.canary[0].name) == ("promote", 2, "bench-00000021")
    assert kept.declaration == declaration_of(json.loads((canary / "1-made" / "run.json").read_text()))
    assert {name: one.folder for name, one in kept.results.items()} == {"old": "old", "canary": "canary"}
    assert {"1-made/run.json", ANSWERS_FILE} < kept.results["canary"].files.keys()
    old, slow = verdict_file.parent / "old", side(verdict_file.parent / "slower", 30, chunk_seconds=0.034)
    slower = judge_folders(old, slow, kept.limits, verdict_file)
    assert (slower.verdict, decided_by(slower, "reject") >= {"tpot-p50", "tpot-p99"}) == ("reject", True)
    with pytest.raises(BenchmarkError, match="contains no measurement"):
        judge_folders(old, verdict_file.parent / "nowhere", kept.limits, verdict_file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["reasons"][0].update(found="-90 %"), "reasons.0.found"),
        (lambda one: one["limits"].update(ttft=0.1), "verdict"),
        (lambda one: one["limits"].update(throughput=True), "limits.throughput"),
        (lambda one: one["limits"].update(throughput=float("nan")), "NaN"),
        (lambda one: one["limits"].pop("errors"), "limits.errors"),
        (lambda one: one["results"]["canary"].update(folder="old"), "old"),
        (lambda one: one["results"]["canary"]["files"].pop(ANSWERS_FILE), ANSWERS_FILE),
        (lambda one: one["results"].pop("canary"), "results.canary"),
        (lambda one: one.pop("results"), "results"),
        (lambda one: one.update(schema=1), "schema 1"),
        (lambda one: one.pop("schema"), "no schema"),
        (lambda one: one.clear(), "no schema"),
    ],
)
def test_an_edited_verdict_is_refused(verdict_file: Path, change: Callable[[Any], Any], said: str) -> None:
    edit(verdict_file, change)
    with pytest.raises(BenchmarkError) as refused:
        read(verdict_file)
    assert said in str(refused.value)
    assert "fleet rollout judge" in str(refused.value)


def test_results_that_changed_or_are_missing_are_refused(verdict_file: Path) -> None:
    canary = verdict_file.parent / "canary"
    (canary / "pod.json").write_text('{"name": "p", "node": "n", "restarts": 0}')
    with pytest.raises(BenchmarkError, match=r"pod\.json was added"):
        read(verdict_file)
    (canary / "pod.json").unlink()
    edit(canary / ANSWERS_FILE, lambda one: one["rounds"][0].popitem())
    with pytest.raises(BenchmarkError, match=r"answers\.json has changed"):
        read(verdict_file)
    shutil.rmtree(canary)
    with pytest.raises(BenchmarkError, match="missing"):
        read(verdict_file)
    verdict_file.write_text("{")
    with pytest.raises(BenchmarkError, match="is not a verdict"):
        read(verdict_file)


def test_one_measurement_does_not_count_twice(verdict_file: Path) -> None:
    old, canary = verdict_file.parent / "old", verdict_file.parent / "canary"
    with pytest.raises(BenchmarkError, match="lies in the time of another"):
        judge_folders(old, old, Limits(), verdict_file)
    shutil.rmtree(canary / "2-made")
    shutil.copytree(canary / "1-made", canary / "2-made")
    with pytest.raises(BenchmarkError, match="lies in the time of another"):
        judge_folders(old, canary, Limits(), verdict_file)


def test_measurements_of_two_workloads_are_no_side(verdict_file: Path) -> None:
    old, canary = verdict_file.parent / "old", verdict_file.parent / "canary"
    file = canary / "2-made" / "run.json"
    run = json.loads(file.read_text())
    run["workload"]["arguments"]["random-input-len"] = "3072"
    file.write_text(json.dumps(run))
    with pytest.raises(BenchmarkError, match="canary holds measurements that differ in workload"):
        judge_folders(old, canary, Limits(), verdict_file)
    shutil.rmtree(canary / "1-made")
    with pytest.raises(BenchmarkError, match="two sides hold measurements that differ in workload"):
        judge_folders(old, canary, Limits(), verdict_file)
    file.write_text(json.dumps(run)[:99])
    with pytest.raises(BenchmarkError, match="cannot be read") as refused:
        judge_folders(old, canary, Limits(), verdict_file)
    assert "pydantic" not in str(refused.value)


def test_the_stack_of_results_must_exist(tmp_path: Path) -> None:
    done = fleet("rollout", "judge", "--stack", "nope", "--results", str(tmp_path), str(tmp_path))
    assert (done.returncode, "Pulumi.nope.yaml" in done.stderr) == (2, True), done.stderr


def test_limits_are_per_cent_and_have_names() -> None:
    given = _limits(["throughput=3.5", "kv-cache=100"])
    assert given == Limits(throughput=0.035, kv_cache=1)
    for wrong in ("throughput", "speed=2", "ttft=-1", "ttft=101", "ttft=nan", "errors=one"):
        with pytest.raises(CommandError, match="NAME=PERCENT"):
            _limits([wrong])
