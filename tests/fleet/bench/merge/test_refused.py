"""Every file that is damaged, missing or of another run is named with what is wrong, or left out by choice."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import AskedSlo
from fleet.bench.merge import MergeOptions, merge_folder, slo_of
from tests.fleet.bench.merge.folders import RUN, client, copied, edit, sound, witness
from tests.support.canaries import CANARIES
from tests.support.rows import each_row

LIGHT: dict[str, Any] = {"with_metrics": False, "with_gpu": False}
"""What most refusals do not look at."""
Change = Callable[[dict[str, Any]], Any]


def _set(key: str, value: Any) -> Change:
    return lambda content: content.__setitem__(key, value)


def _item(key: str, index: int, value: Any) -> Change:
    return lambda content: content[key].__setitem__(index, value)


def _drop(*keys: str) -> Change:
    return lambda content: [content.pop(key) for key in keys]


_DETAIL = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors")

OF_A_RESULT: list[tuple[str, Change]] = [
    ("no-detail", _drop(*_DETAIL)),
    ("not-a-result", lambda content: content.clear()),
    ("missing-key", _drop("itls")),
    ("wrong-type", _set("ttfts", 3.0)),
    ("uneven-lists", lambda content: content["ttfts"].pop()),
    ("uneven-lists", lambda content: content["errors"].pop()),
    ("bad-number", _item("ttfts", 5, float("nan"))),
    ("bad-number", _item("ttfts", 5, -0.2)),
    ("bad-number", _item("ttfts", 5, 0.0)),
    ("bad-number", _item("ttfts", 5, "0.2")),
    ("bad-number", _item("start_times", 0, None)),
    ("bad-number", _item("output_lens", 7, 3.5)),
    ("bad-number", _item("input_lens", 7, -1)),
    ("bad-number", lambda content: content["itls"][3].__setitem__(2, float("inf"))),
    ("bad-number", lambda content: content["itls"][3].__setitem__(2, -1e-3)),
    ("bad-number", lambda content: content["itls"][3].__setitem__(2, 30_000)),
    ("bad-number", lambda content: content["itls"][3].__setitem__(2, "a")),
    ("bad-number", _item("itls", 4, 0.1)),
    ("bad-number", _item("itls", 4, CANARIES["github"])),
    ("bad-number", _set("duration", 0)),
    ("bad-number", _set("output_throughput", None)),
    ("bad-number", _set("max_concurrency", "4")),
    ("bad-number", _set("request_rate", "fast")),
    ("bad-number", _set("client", "one")),
    ("not-monotonic", _item("start_times", 20, 1.0)),
    ("contradiction", _set("total_output_tokens", 1)),
    ("contradiction", _set("completed", 40)),
    ("contradiction", lambda content: content.update(completed=40, failed=8)),
    ("contradiction", _item("start_times", 0, 3.0)),
    ("contradiction", _set("duration", 0.5)),
    ("other-client", _set("client", "3")),
    ("other-run", _set("run", "bench-11111111")),
    ("other-workload", _set("workload", "vllm-1024-512")),
    ("other-point", _set("point", "2")),
    ("other-point", _set("repeat", "1")),
    ("other-model", _set("model_id", "Qwen/Qwen3-8B")),
    ("other-load", _set("max_concurrency", 99)),
    ("other-load", _set("clients", "9")),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "change"), dict(OF_A_RESULT).items())
def test_a_damaged_result_can_be_left_out(tmp_path: Path, reason: str, change: Change) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(client(folder), change)
    for exclude in (f"{RUN}/client-001.json", f"reason:{reason}"):
        merged = merge_folder(folder, MergeOptions(exclude=(exclude,)))
        assert [one.file for one in merged.excluded] == [f"{RUN}/client-001.json"]
        assert len(merged.runs[0].clients) == 3
        assert any(RUN in remark for remark in merged.remarks)


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"", "truncated", "it is empty"),
        (b'{"date": "2026', "truncated", "ends in the middle"),
        (b"[1, 2]", "not-a-result", "it holds a list"),
        (b'{"a": }', "not-json", "not JSON"),
    ],
)
def test_a_file_that_is_no_object_is_named(tmp_path: Path, data: bytes, reason: str, words: str) -> None:
    folder = copied(tmp_path, **LIGHT)
    client(folder).write_bytes(data)
    with pytest.raises(BenchmarkError, match=words) as refusal:
        merge_folder(folder)
    assert f"[{reason}]" in str(refusal.value)


def _later(content: dict[str, Any], *clocks: str) -> None:
    for clock in clocks:
        content[clock]["perf_counter"] += 500


OF_A_WITNESS: list[tuple[str, Change]] = [
    ("unknown-schema", _set("schema", 2)),
    ("bad-file", _set("surprise", 2)),
    ("bad-file", _drop("clock")),
    ("other-witness", _set("client", 2)),
    ("other-witness", _set("seed", 5)),
    ("other-witness", lambda content: content["prompt_hashes"].pop()),
    ("other-witness", lambda content: content["asked_input_tokens"].reverse()),
    ("uneven-lists", lambda content: content["samples"]["cpu_share"].pop()),
    ("other-witness", lambda content: _later(content, "clock", "clock_at_end")),
    ("bad-file", lambda content: content["clock"].__setitem__("wall", float("nan"))),
    ("clock-drift", lambda content: content["clock_at_end"].__setitem__("wall", content["clock_at_end"]["wall"] + 2.5)),
    ("bad-number", _item("prompt_hashes", 0, "not hexadecimal!")),
]  # fmt: skip


def test_a_server_may_count_a_prompt_otherwise_than_its_client(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    lengths: list[int] = []

    def count_one_less(content: dict[str, Any]) -> None:
        content["asked_input_tokens"] = [tokens + 1 for tokens in content["asked_input_tokens"]]
        lengths.extend(content["asked_input_tokens"])

    edit(witness(folder), count_one_less)
    assert len(lengths) == 48
    assert merge_folder(folder).runs[0].clients[1].cpu_share_mean is not None


@pytest.mark.parametrize(("reason", "change"), dict(OF_A_WITNESS).items())
def test_a_witness_that_does_not_belong_can_be_left_out_without_its_client(
    tmp_path: Path, reason: str, change: Change
) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(witness(folder), change)
    for exclude in ("client-001.witness.json", f"reason:{reason}"):
        merged = merge_folder(folder, MergeOptions(exclude=(exclude,)))
        assert len(merged.runs[0].clients) == 4
        assert merged.runs[0].clients[1].cpu_share_mean is None
        assert merged.prompts.known == 3 * 48
        assert not merged.runs[0].lengths.asked_known
        # Its client is laid by its node's other witness, so the window is where it was.
        assert merged.runs[0].clock == "witness"
        assert merged.runs[0].whole == merge_folder(sound(**LIGHT)).runs[0].whole


def test_what_is_said_of_every_damage(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    folder = copied(tmp_path, **LIGHT)
    told = []
    for file, changes in ((client(folder), OF_A_RESULT), (witness(folder), OF_A_WITNESS)):
        before = file.read_bytes()
        for reason, change in changes:
            edit(file, change)
            with pytest.raises(BenchmarkError) as refusal:
                merge_folder(folder)
            told.append(str(refusal.value).splitlines()[1:-1])
            assert any(f"{file.name}: " in line and f"[{reason}]" in line for line in told[-1])
            file.write_bytes(before)
    golden("bench/refusals.txt", "".join(f"{line.strip()}\n" for lines in told for line in lines))


def test_only_results_that_are_left_out_take_their_load_along(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    beside = merge_folder(folder, MergeOptions(exclude=("pod-0.json", "client-001.log", "client-001.witness.json")))
    assert not any("load" in remark for remark in beside.remarks)
    merged = merge_folder(folder, MergeOptions(exclude=("client-001.*", "pod-0.json")))
    assert len(merged.excluded) == 4
    assert any(f"{RUN}: 1 result" in remark for remark in merged.remarks)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(client(folder, 0), _item("ttfts", 1, -1.0))
    edit(client(folder, 2), _set("point", "4"))
    client(folder, 3).write_bytes(b"{")
    edit(witness(folder, 1), _set("schema", 9))
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    message = str(refusal.value)
    assert "4 problems" in message
    for word in ("client-000.json", "client-002.json", "client-003.json", "client-001.witness.json"):
        assert word in message


def test_the_same_problem_of_all_files_is_told_once(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    for number in range(4):
        edit(client(folder, number), _drop(*_DETAIL))
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    assert str(refusal.value).count("--save-detailed") == 1
    assert "4 problems" in str(refusal.value)


@pytest.mark.parametrize("clients", [4, 1])
def test_to_leave_every_result_out_is_not_proposed(tmp_path: Path, clients: int) -> None:
    folder = copied(tmp_path, **LIGHT, clients=clients)
    for number in range(clients):
        edit(client(folder, number), _set("run", "bench-11111111"))
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    way = str(refusal.value).splitlines()[-1]
    assert "reason:" not in way
    if clients == 1:
        assert "--exclude" not in way
    else:
        assert f"fleet bench merge {folder} --exclude {RUN}/client-000.json; " in way
        edit(client(folder, 2), _set("run", "bench-00000000"))
        with pytest.raises(BenchmarkError, match=r"--exclude reason:other-run; "):
            merge_folder(folder)


def test_the_same_result_twice_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, repeats=2)
    shutil.copy(client(folder, 2), client(folder, 1))
    edit(client(folder, 1), lambda content: content.update(client="1", seed="77"))
    witness(folder, 1).unlink()
    other = f"{RUN[:-1]}1"
    shutil.copy(client(folder, 0), client(folder, 0, other))
    edit(client(folder, 0, other), lambda content: content.update(repeat="1", seed="78"))
    witness(folder, 0, other).unlink()
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    message = str(refusal.value)
    assert re.search(f"{RUN}/client-002.json: .*{RUN}/client-001.json; .*\\[same-content\\]", message)
    assert re.search(f"{other}/client-000.json: .*{RUN}/client-000.json; .*\\[same-content\\]", message)


def test_the_same_seed_twice_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    seed = json.loads(client(folder, 0).read_bytes())["seed"]
    edit(client(folder, 1), _set("seed", seed))
    edit(witness(folder, 1), _set("seed", int(seed)))
    with pytest.raises(BenchmarkError, match=rf"seed is {seed}, as in {RUN}/client-000.json.*\[same-seed\]"):
        merge_folder(folder)
    assert (
        merge_folder(folder, MergeOptions(exclude=("reason:same-seed",))).excluded[0].file == f"{RUN}/client-001.json"
    )


def test_a_missing_client_is_named_with_its_exit_code(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, missing_client=2)
    with pytest.raises(BenchmarkError, match=r"1 of 4 clients .*: 2 \(client 2 .*code 1\)") as refusal:
        merge_folder(folder)
    assert "--allow-missing" in str(refusal.value)
    merged = merge_folder(folder, MergeOptions(allow_missing=True))
    assert any("1 of 4 clients" in remark for remark in merged.remarks)
    assert merged.runs[0].connections == 12


def test_a_client_that_did_not_end_well_is_remarked(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(folder / RUN / "pod-1.json", lambda content: content["exit_codes"].__setitem__("3", 137))
    (remark,) = merge_folder(folder).remarks
    assert re.findall(r"\d+", remark) == ["3", "137"]


def test_a_runs_own_merged_file_is_no_stranger(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    (folder / RUN / "merged.json").write_text("{}", encoding="utf-8")
    assert merge_folder(folder) == merge_folder(sound(**LIGHT))
    assert merge_folder(folder / RUN).runs == merge_folder(folder).runs


def test_missing_runs_are_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, repeats=3)
    shutil.rmtree(folder / "point-00-repeat-1")
    with pytest.raises(BenchmarkError, match=r"1 of 3 runs.*point-00-repeat-1"):
        merge_folder(folder)
    merged = merge_folder(folder, MergeOptions(allow_missing=True))
    assert merged.points[0].total_tokens_per_s.repeats == 2
    assert any("point-00-repeat-1" in remark for remark in merged.remarks)


def test_a_run_can_be_left_out_as_a_whole(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, repeats=3)
    merged = merge_folder(folder, MergeOptions(exclude=("point-00-repeat-1",)))
    assert [run.name for run in merged.runs] == ["point-00-repeat-0", "point-00-repeat-2"]
    assert [one.file for one in merged.excluded] == ["point-00-repeat-1"]


def test_a_run_that_nobody_asked_for_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, repeats=2)
    edit(folder / "run.json", _set("repeats", 1))
    with pytest.raises(BenchmarkError, match=r"point-00-repeat-1: run\.json .*--exclude point-00-repeat-1"):
        merge_folder(folder)


def test_a_client_that_ran_alone_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, late_client=3, late_seconds=500.0)
    with pytest.raises(
        BenchmarkError,
        match=r"client-003\.json: .* 5\d\d\.\d .* 0 of 3 .*\[no-overlap\]",
    ):
        merge_folder(folder)
    merged = merge_folder(folder, MergeOptions(exclude=("reason:no-overlap",)))
    assert len(merged.runs[0].clients) == 3
    assert merged.runs[0].steady is not None


def test_a_client_that_got_no_answer_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, fail_all=True)
    with pytest.raises(BenchmarkError, match=r"48 requests.*connection.*\[no-success\]"):
        merge_folder(folder)


def test_files_of_other_names_are_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    shutil.copy(client(folder), client(folder).with_name("client-001 (copy).json"))
    shutil.copy(client(folder), folder / "client-001.json")
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    assert f"{RUN}/client-001 (copy).json: " in str(refusal.value)
    assert "  client-001.json: " in str(refusal.value)
    merged = merge_folder(folder, MergeOptions(exclude=("*(copy).json", "reason:unknown-file")))
    assert len(merged.excluded) == 2


def test_a_damaged_run_file_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(folder / "run.json", _set("schema", 2))
    with pytest.raises(BenchmarkError, match=r"run\.json: schema is 2; expected: 1"):
        merge_folder(folder)
    (folder / "run.json").unlink()
    with pytest.raises(BenchmarkError, match=r"run\.json: .*--allow-missing"):
        merge_folder(folder)
    assert merge_folder(folder, MergeOptions(allow_missing=True)).asked is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"name": "x", "version": "1.0", "private": true, "scripts": {}, "author": "me"}', "keys: stack, "),
        ("[1, 2]", "object"),
    ],
)  # fmt: skip
def test_a_run_file_that_is_some_other_json_is_named_in_one_line(tmp_path: Path, text: str, found: str) -> None:
    folder = copied(tmp_path, **LIGHT)
    (folder / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    first, *rest = str(refusal.value).splitlines()
    assert first.endswith("1 problem")
    assert len(rest) == 1
    assert rest[0].startswith("  run.json: ")
    assert found in rest[0]
    assert "`fleet bench run`" in rest[0]


def test_many_faults_of_one_file_are_one_problem(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(folder / "run.json", lambda content: content.update({f"x{number}": 1 for number in range(9)}))
    with pytest.raises(BenchmarkError, match=r"1 problem\n  run.json: x0: .*, x1: .*, x2: .* and 6 more; "):
        merge_folder(folder)


@pytest.mark.parametrize(("where", "change"), [
    ("repeats", _set("repeats", 10**9)),
    ("points.0.clients", lambda content: content["points"][0].__setitem__("clients", 10**9)),
])  # fmt: skip
def test_numbers_that_nobody_asks_for_are_named(tmp_path: Path, where: str, change: Change) -> None:
    folder = copied(tmp_path, **LIGHT)
    edit(folder / "run.json", change)
    with pytest.raises(BenchmarkError, match=rf"run\.json: {where}: "):
        merge_folder(folder)


def test_damaged_samples_and_readings_are_named(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    metrics = folder / RUN / "server-metrics.jsonl.gz"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole[:-20])
    (folder / "dcgm.json").write_text('{"schema": 3, "series": []}', encoding="utf-8")
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder)
    for words in (
        "server-metrics.jsonl.gz: ",
        "dcgm.json: schema is 3",
    ):
        assert words in str(refusal.value)
    metrics.write_bytes(gzip.compress(gzip.decompress(whole) + b'{"at": "noon"}\n'))
    with pytest.raises(BenchmarkError, match=r"line \d+: at"):
        merge_folder(folder)
    merged = merge_folder(folder, MergeOptions(exclude=("server-metrics.jsonl.gz", "reason:unknown-schema")))
    assert merged.runs[0].server is None
    assert merged.runs[0].gpus is None
    assert {one.file for one in merged.excluded} == {"dcgm.json", f"{RUN}/server-metrics.jsonl.gz"}


@pytest.mark.parametrize("exclude", ["client-9*.json", "reason:same-seed", "reason:nonsense"])
def test_an_exclude_that_leaves_nothing_out_is_refused(exclude: str) -> None:
    with pytest.raises(BenchmarkError, match="matches no file"):
        merge_folder(sound(**LIGHT), MergeOptions(exclude=(exclude,)))


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="has no client's result"):
        merge_folder(tmp_path)
    with pytest.raises(BenchmarkError, match="is not a folder"):
        merge_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("pattern", ["*", "client-*.json", RUN, "point-*"])
@pytest.mark.parametrize("bare", [False, True])
def test_leaving_every_client_out_is_refused(tmp_path: Path, pattern: str, bare: bool) -> None:
    folder = copied(tmp_path, **LIGHT)
    if bare:
        folder = (folder / RUN).rename(tmp_path / "bare")
        pattern = "*" if pattern == RUN else pattern.replace("point-", "client-")
    with pytest.raises(BenchmarkError) as refusal:
        merge_folder(folder, MergeOptions(exclude=(pattern,)))
    assert str(refusal.value).startswith(f"{folder}: ")
    assert f" --exclude {shlex.quote(pattern)} " in str(refusal.value)


def test_leaving_files_out_of_a_folder_without_results_is_not_what_emptied_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="has no client's result"):
        merge_folder(tmp_path, MergeOptions(exclude=("*.txt",)))


@pytest.mark.parametrize("way", ["relative", "absolute", "link", "pattern", "inside", "folder"])
def test_a_path_that_a_shell_completes_is_taken_within_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    copied(tmp_path, **LIGHT, repeats=2)
    folder, file, where = Path("measurement"), f"{RUN}/client-001.json", tmp_path
    given = {
        "relative": f"measurement/{file}",
        "absolute": str(tmp_path / "measurement" / file),
        "link": f"link/{file}",
        "pattern": f"./measurement/{RUN}/client-*1.json",
        "inside": "client-001.json",
        "folder": f"measurement/{RUN}/",
    }[way]
    if way == "link":
        (tmp_path / "link").symlink_to("measurement")
    if way == "inside":
        folder, where = tmp_path / "measurement" / RUN, tmp_path / "measurement" / RUN
        given = f"../{file}"
    monkeypatch.chdir(where)
    merged = merge_folder(folder, MergeOptions(exclude=(given,)))
    expected = {"inside": "client-001.json", "folder": RUN}.get(way, file)
    assert [one.file for one in merged.excluded] == [expected]


def test_leaving_every_client_of_a_run_out_by_their_problem(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, repeats=2, clients=2)
    other = f"{RUN[:-1]}1"
    for number in range(2):
        edit(client(folder, number, other), _item("ttfts", 0, -1.0))
    merged = merge_folder(folder, MergeOptions(exclude=("reason:bad-number",)))
    assert [run.name for run in merged.runs] == [RUN]
    assert any(remark.startswith(f"{other} ") for remark in merged.remarks)
    for number in range(2):
        edit(client(folder, number), _item("ttfts", 0, -1.0))
    with pytest.raises(BenchmarkError, match="4 files"):
        merge_folder(folder, MergeOptions(exclude=("reason:bad-number",)))


def test_two_clients_that_never_met_leave_nothing(tmp_path: Path) -> None:
    folder = copied(tmp_path, **LIGHT, clients=2, late_client=1, late_seconds=300.0)
    with pytest.raises(BenchmarkError, match=r"2 problems"):
        merge_folder(folder)
    with pytest.raises(BenchmarkError, match="2 files"):
        merge_folder(folder, MergeOptions(exclude=("reason:no-overlap",)))


def test_limits_are_read_as_they_are_written() -> None:
    assert slo_of("ttft:500,tpot:50.5") == AskedSlo(ttft_ms=500, tpot_ms=50.5)
    assert slo_of(" e2e:9000 ") == AskedSlo(e2e_ms=9000)


@each_row("text", ["", "ttft", "ttft:0", "ttft:-1", "itl:5", "ttft:1.2.3", "ttft:5,ttft:6", "ttft:5,"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(BenchmarkError, match="--slo"):
        slo_of(text)
