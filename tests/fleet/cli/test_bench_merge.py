"""`fleet bench merge` as a command: what it prints, writes and exits with."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.judged import judge, read
from fleet.bench.measurement import Judged
from fleet.bench.merge import MergeOptions, merge_folder, slo_of
from fleet.bench.report.outline import outline
from fleet.cli.bench.merge import exit_code, merge
from fleet.cli.exits import CommandError
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from tests.fleet.bench.merge.folders import client, copied, edit, sound
from tests.fleet.cli.command import fleet

CERTIFIED = {"requests_per_client": 260, "connections_per_client": 8, "repeats": 3, "seed": 0}


def printed(judged: Judged, width: int) -> list[str]:
    """The report's lines."""
    stream = StringIO()
    report = outline(judged, source=Path("out"), written=Path("out/merged.json"))
    print_text(Paper(stream=stream, width=width, styled=False), report)
    return stream.getvalue().splitlines()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("certified"), **CERTIFIED)


def test_the_report_of_a_certified_measurement(certified: Path, golden: Callable[[str, str], None]) -> None:
    judged = judge(certified, MergeOptions(slo=slo_of("ttft:300,tpot:20")))
    golden("bench/merge.txt", "\n".join(printed(judged, 100)) + "\n")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_certified_measurement_in_text(certified: Path, width: int) -> None:
    judged = judge(certified, MergeOptions(slo=slo_of("ttft:300,tpot:20")))
    assert (judged.certificate.verdict, exit_code(judged)) == ("certified", 0)
    lines = printed(judged, width)
    assert max(len(line) for line in lines) <= width
    assert "✓ Certified: " in " ".join(lines[:2])
    point = judged.measurement.points[0]
    for estimate in (point.total_tokens_per_s, point.output_tokens_per_s):
        assert estimate.low is not None
        assert estimate.high is not None
        assert f"{estimate.mean:,.0f} ± {(estimate.high - estimate.low) / 2:,.0f}" in " ".join(lines[:5])
    # The article's figure stands under its own name, and is another one than the certified.
    text = " ".join(" ".join(lines).split())
    own, certified_rate = text.partition("Counted the article's way")[2][:200], f"{point.total_tokens_per_s.mean:,.0f}"
    summed = sum(run.summed.total_tokens_per_s for run in judged.measurement.runs) / 3
    assert f"{summed:,.0f}" in own
    assert certified_rate in text
    assert certified_rate not in own


def test_json_is_one_document_and_what_is_written(certified: Path, tmp_path: Path) -> None:
    out = tmp_path / "here.json"
    done = fleet("bench", "merge", str(certified), "--format", "json", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(out.read_bytes())
    judged = Judged.model_validate_json(done.stdout)
    assert judged.measurement == merge_folder(certified)
    assert list(tmp_path.iterdir()) == [out]


def test_what_is_not_certified_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path, saturated_client=2, fail_share=0.05, clients=10)
    assert merge(folder) == 1
    text = capsys.readouterr().out
    assert "✗ Not certified: " in " ".join(text.splitlines()[:2])
    for words in ("(error, client-cpu)", "allowed: ", "Failed requests", "connection "):
        assert words in text, words
    lines = printed(Judged.model_validate_json((folder / "merged.json").read_bytes()), 80)
    assert max(len(line) for line in lines) <= 80


def test_several_loads_stand_in_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    merge(copied(tmp_path, points=3, with_gpu=False))
    table = capsys.readouterr().out.partition("Throughput against requests in flight")[2]
    assert re.findall(r"^ *(\d+)\b", table, re.MULTILINE)[:3] == ["16", "32", "64"]


def test_a_baseline_that_was_better_is_a_finding(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge(certified, baseline=certified) == 0
    assert "same within noise" in capsys.readouterr().out
    slower = copied(tmp_path, **CERTIFIED | {"chunk_seconds": 0.06})
    assert merge(slower, baseline=certified) == 1
    out = capsys.readouterr().out
    # The first lines say why a certified measurement exits with 1.
    assert "✓ Certified: " in " ".join(out.splitlines()[:2])
    lost = re.search(r"✗ Worse than baseline bench-00000000\s+beyond\s+noise:\s+total\s+tok/s\s+(-\d+\.\d %)", out)
    assert lost is not None
    assert re.search(rf"total tok/s .* {re.escape(lost[1])} .* regressed", out)
    assert read(slower).comparisons


def test_a_baseline_of_another_shape_passes_no_gate(
    tmp_path: Path, certified: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another = copied(tmp_path, **CERTIFIED)
    edit(another / "run.json", lambda run: run["shape"].update(engine_version="0.33.0"))
    assert merge(certified, baseline=another) == 1
    out = capsys.readouterr().out
    assert "✗ Not comparable with baseline bench-00000000: " in out
    # In the verdict, and one reason for all quantities.
    assert " ".join(out.split()).count("engine_version was 0.33.0, is 0.18.0") == 2


@pytest.mark.parametrize("at", ["run.json", "point-00-repeat-0/client-000.json", "mine.json"])
def test_what_was_measured_is_not_written_over(at: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(CommandError, match=f"--out {re.escape(str(folder / at))}: "):
        merge(folder, out=folder / at)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_only_an_outcome_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.json"
    file.write_text('{"measurement": "of my table"}', encoding="utf-8")
    with pytest.raises(CommandError, match=f"--out {re.escape(str(file))}: "):
        merge(sound(), out=file)
    with pytest.raises(CommandError, match="not a regular file"):
        merge(sound(), out=Path("/dev/null"))
    assert "of my table" in file.read_text(encoding="utf-8")
    for _ in range(2):
        assert merge(sound(), out=tmp_path / "outcome.json") in (0, 1)
    assert "fleet bench report" not in capsys.readouterr().out  # which reads DIR/merged.json


def test_what_many_checks_lack_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bare"
    shutil.copytree(
        sound() / "point-00-repeat-0", folder, ignore=shutil.ignore_patterns("*witness*", "pod-*", "server*")
    )
    assert merge(folder) == 1
    out = capsys.readouterr().out
    assert "checks not measured" in out
    assert f"fleet bench report {folder}" in out


def test_what_cannot_be_merged_exits_with_2_and_writes_nothing(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    client(folder, 2).write_bytes(b"{")
    before = sorted(folder.rglob("*"))
    done = fleet("bench", "merge", str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fleet: {folder} ")
    assert re.search(r"client-002\.json: .*\[truncated\]", done.stderr)
    assert "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before
    done = fleet("bench", "merge", str(folder), "--exclude", "client-001.json", "--exclude", "reason:truncated")
    assert done.returncode == 1
    assert "Left out" in done.stdout


def test_missing_files_are_merged_by_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path, missing_client=1)
    with pytest.raises(BenchmarkError, match="1 of 4 clients"):
        merge(folder)
    assert merge(folder, allow_missing=True) == 1
    assert "1 of 4 clients" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slo": "itl:5"}, "--slo itl:5"),
        ({"exclude": ["reason:nonsense"]}, "matches no file"),
        ({"baseline": Path("nowhere")}, "nowhere"),
        ({"out": Path("no/such/folder/merged.json")}, "cannot be written"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchmarkError, match=words):
        merge(sound(), **options)
    assert not (sound() / "merged.json").exists()
