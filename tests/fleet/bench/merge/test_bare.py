"""Folders without run.json: results of `vllm bench serve` under any name, files of several results, one run of a measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.merge import MergeOptions, merge_folder
from tests.fleet.bench.merge.folders import RUN, client, copied, sound

_METADATA = ("run", "point", "repeat", "client", "clients", "workload", "seed", "started_at")


def _article(tmp_path: Path, *, metadata: bool = False, clients_per_pod: int = 4) -> Path:
    """As the article kept them: one file a client, vLLM's own names, no witness."""
    source = sound(clients_per_pod=clients_per_pod)
    folder = tmp_path / "results"
    folder.mkdir()
    for number in range(4):
        result = json.loads(client(source, number).read_bytes())
        if not metadata:
            for key in _METADATA:
                del result[key]
        name = f"openai-infqps-concurrency4-Qwen3.5-27B-FP8-2026052{number}-101112.json"
        (folder / name).write_text(json.dumps(result), encoding="utf-8")
    return folder


def test_results_of_the_articles_kind_are_one_run(tmp_path: Path) -> None:
    folder = _article(tmp_path)
    (folder / "openai-infqps.pytorch.json").write_text("[]", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    merged = merge_folder(folder)
    exact = merge_folder(sound(clients_per_pod=4)).runs[0]
    run = merged.runs[0]
    assert merged.asked is None
    assert (run.name, run.clock, [one.client for one in run.clients]) == ("results", "one node", [0, 1, 2, 3])
    assert 0.9 < run.clock_uncertainty_s < 3.0, "dates alone cannot tell nodes that booted in the same second"
    assert run.completed == exact.completed
    assert run.whole.total_tokens_per_s == pytest.approx(exact.whole.total_tokens_per_s, rel=1e-6)
    assert run.latencies == exact.latencies
    assert merged.points[0].connections == 16
    assert merged.points[0].usd_per_million_tokens is None
    assert not run.lengths.asked_known
    assert run.clients[0].cpu_share_mean is None


def test_metadata_of_bare_results_tell_missing_clients(tmp_path: Path) -> None:
    folder = _article(tmp_path, metadata=True)
    sorted(folder.glob("*.json"))[2].unlink()
    with pytest.raises(BenchmarkError, match=r"1 of 4 clients .*: 2"):
        merge_folder(folder)


@pytest.mark.parametrize(("key", "digits"), [("client", 5000), ("clients", 12), ("clients", 5000)])
def test_numbers_that_no_run_has_are_named(tmp_path: Path, key: str, digits: int) -> None:
    folder = _article(tmp_path, metadata=True)
    for file in folder.glob("*.json"):
        content = json.loads(file.read_bytes())
        file.write_text(json.dumps({**content, key: "9" * digits}), encoding="utf-8")
    with pytest.raises(BenchmarkError, match=rf"{key} is '9+.*\[bad-number\]"):
        merge_folder(folder)


def test_a_seed_may_be_any_text(tmp_path: Path) -> None:
    folder = _article(tmp_path, metadata=True)
    for number, file in enumerate(sorted(folder.glob("*.json"))):
        content = json.loads(file.read_bytes())
        file.write_text(json.dumps({**content, "seed": f"{number}" * 5000}), encoding="utf-8")
    assert [one.seed for one in merge_folder(folder).runs[0].clients] == [None] * 4


def test_a_file_of_several_results_is_one_client_a_line(tmp_path: Path) -> None:
    folder = _article(tmp_path)
    files = sorted(folder.glob("*.json"))
    separate = merge_folder(folder).runs[0]
    (folder / "all.json").write_bytes(b"\n".join(path.read_bytes() for path in files))
    for path in files:
        path.unlink()
    joined = merge_folder(folder).runs[0]
    assert joined == separate
    lines = (folder / "all.json").read_bytes().split(b"\n")
    (folder / "all.json").write_bytes(b"\n".join([*lines[:2], lines[2][:500], lines[3]]))
    with pytest.raises(BenchmarkError, match=r"all\.json:3: .*\[truncated\]"):
        merge_folder(folder)
    assert len(merge_folder(folder, MergeOptions(exclude=("reason:truncated",))).runs[0].clients) == 3
    assert len(merge_folder(folder, MergeOptions(exclude=("all.json:3",))).runs[0].clients) == 3


def test_an_indented_file_is_one_result(tmp_path: Path) -> None:
    folder = _article(tmp_path)
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1), encoding="utf-8")
    assert len(merge_folder(folder).runs[0].clients) == 4


def test_one_run_of_a_measurement_is_merged_alone_with_what_was_asked(tmp_path: Path) -> None:
    folder = copied(tmp_path, repeats=2)
    whole, one = merge_folder(folder), merge_folder(folder / RUN)
    assert one.runs[0] == whole.runs[0]
    assert one.asked == whole.asked
    (folder / "run.json").unlink()
    alone = merge_folder(folder / RUN)
    assert alone.asked is None
    assert alone.runs[0].steady == whole.runs[0].steady
    client(folder, 2).write_bytes(b"{")
    with pytest.raises(BenchmarkError, match=r"client-002.json"):
        merge_folder(folder / RUN)
    assert len(merge_folder(folder / RUN, MergeOptions(exclude=("client-002.json",))).runs[0].clients) == 3


def test_other_json_in_a_bare_folder_is_named(tmp_path: Path) -> None:
    folder = _article(tmp_path)
    (folder / "package.json").write_text('{"name": "x"}', encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"package\.json: .*`vllm bench serve`"):
        merge_folder(folder)
    assert merge_folder(folder, MergeOptions(exclude=("package.json",))).excluded[0].file == "package.json"
