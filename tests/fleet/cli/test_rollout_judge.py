"""`fleet rollout judge --results`: two folders of results that lie here, judged without a cloud."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.cli.exits import CommandError
from fleet.cli.judge import _limits
from fleet.rollout.judge.answers import ANSWERS_FILE
from fleet.rollout.judge.judging import judge_folders
from fleet.rollout.judge.verdict import VERDICT_FILE, Limits, declaration_of, read
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.cli.command import fleet
from tests.fleet.rollout.judge.sides import answers, decided_by


def side(folder: Path, seed: int, chunk_seconds: float = 0.03) -> Path:
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
        )
    (folder / ANSWERS_FILE).write_text(answers().model_dump_json(by_alias=True))
    return folder


def test_results_are_judged_offline_and_the_verdict_is_kept(tmp_path: Path) -> None:
    old, canary = side(tmp_path / "old", 10), side(tmp_path / "canary", 20)
    wide = ("--limit", "ttft=50", "--limit", "throughput=5")
    done = fleet("rollout", "judge", "--stack", "dev", "--results", str(old), str(canary), *wide, "--format", "json")
    # Loud about results of something else than the stack file declares.
    assert (done.returncode, "stack dev: the servers and the canary" in done.stderr) == (0, True)
    assert "throughput=5, ttft=50" in json.loads(done.stdout)["headline"]
    kept = read(tmp_path / VERDICT_FILE)
    assert json.loads(done.stdout) == json.loads((tmp_path / VERDICT_FILE).read_text())
    assert (kept.verdict, len(kept.old), kept.canary[0].name) == ("promote", 2, "bench-00000021")
    assert kept.declaration == declaration_of(json.loads((canary / "1-made" / "run.json").read_text()))
    slower = judge_folders(old, side(tmp_path / "slower", 30, chunk_seconds=0.034), kept.limits)
    assert (slower.verdict, decided_by(slower, "reject") >= {"tpot-p50", "tpot-p99"}) == ("reject", True)
    with pytest.raises(BenchmarkError, match="contains no measurement"):
        judge_folders(old, tmp_path / "nowhere", kept.limits)


def test_measurements_of_two_workloads_are_no_side(tmp_path: Path) -> None:
    old, canary = side(tmp_path / "old", 10), side(tmp_path / "canary", 20)
    judge_folders(old, canary, Limits())
    file = canary / "2-made" / "run.json"
    run = json.loads(file.read_text())
    run["workload"]["arguments"]["random-input-len"] = "3072"
    file.write_text(json.dumps(run))
    with pytest.raises(BenchmarkError, match="canary holds measurements that differ in workload"):
        judge_folders(old, canary, Limits())
    shutil.rmtree(canary / "1-made")
    with pytest.raises(BenchmarkError, match="two sides hold measurements that differ in workload"):
        judge_folders(old, canary, Limits())
    file.write_text(json.dumps(run)[:99])
    with pytest.raises(BenchmarkError, match="cannot be read") as refused:
        judge_folders(old, canary, Limits())
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
