"""Each client's part of a dataset: every entry once before any again, and wrong files named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import each_row
from tests.workloads.benchmark.pods.test_run_plan import plan_of
from workloads.benchmark.pods.dataset_parts import DatasetError, Parts


def _workload(kind: str) -> dict[str, Any]:
    return {"name": kind, "kind": kind, "arguments": {}, "ignore_eos": False}


def _parts(folder: Path, kind: str, text: str, **changes: Any) -> Parts:
    file = folder / "data"
    file.write_text(text, encoding="utf-8")
    asked = {"points": [{"connections": 6, "clients": 3}], "prompts_per_client": 2, **changes}
    return Parts(plan_of(folder, workload=_workload(kind), **asked), file)


def _written(parts: Parts, folder: Path) -> list[list[bytes]]:
    """The entries of every client of every run."""
    found = []
    for run in parts.plan.runs:
        for client in range(run.clients):
            file = folder / "part"
            parts.write(run, client, file)
            found.append(file.read_bytes().strip(b"[]").replace(b",\n", b"\n").split(b"\n"))
    return found


def test_lines_of_a_trace_are_taken_in_turn_over_clients_and_runs(tmp_path: Path) -> None:
    lines = [json.dumps({"prompt": f"p{n}", "output_tokens": 1}) for n in range(16)]
    points = [{"connections": 6, "clients": 3}, {"connections": 1, "clients": 1}]
    written = _written(_parts(tmp_path, "trace", "\n".join(lines) + "\n\n", points=points, repeats=2), tmp_path)
    assert [len(one) for one in written] == [2] * 8
    assert sorted(line for one in written for line in one) == sorted(line.encode() for line in lines)
    again = _written(_parts(tmp_path, "trace", "\n".join(lines[:4]), repeats=2), tmp_path)
    assert len({line for one in again for line in one}) == 4


def test_conversations_are_of_two_turns_and_each_prompt_once_with_spares(tmp_path: Path) -> None:
    def entry(*turns: str) -> dict[str, Any]:
        return {"id": "x", "conversations": [{"from": "human", "value": turn} for turn in turns]}

    entries = [
        entry("alone"),
        entry(),
        entry("", "b"),
        *(entry(f"q{n}", "a", "c") for n in range(20)),
        entry("q0", "z"),
    ]
    written = _written(_parts(tmp_path, "sharegpt", json.dumps(entries)), tmp_path)
    assert [len(one) for one in written] == [6, 6, 6]
    first = [json.loads(line)["conversations"] for one in written for line in one]
    assert all(len(turns) == 2 for turns in first)
    assert len({turns[0]["value"] for turns in first}) == 18


@each_row(
    ("kind", "text", "said"),
    [
        ("trace", '{"prompt": "a", "output_tokens": 1}\n{"prompt": "a", "output_tokens": 0}\n', "line 2 is"),
        ("trace", '{"input_tokens": true, "output_tokens": 1}', "line 1 is"),
        ("trace", '{"prompt": "", "output_tokens": 1}', "line 1 is"),
        ("trace", '"words"', "line 1 is"),
        ("trace", "{", "line 1 is"),
        ("trace", "\n", "has no requests"),
        ("sharegpt", "{", "is not ShareGPT"),
        ("sharegpt", '[{"conversations": [{"from": "human"}]}]', "is not ShareGPT"),
        ("sharegpt", "[3]", "is not ShareGPT"),
        ("sharegpt", "[]", "has no requests"),
    ],
)
def test_a_wrong_file_is_named(tmp_path_factory: pytest.TempPathFactory, kind: str, text: str, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        _parts(tmp_path_factory.mktemp("wrong"), kind, text)


def test_random_requests_need_no_file_and_others_do(tmp_path: Path) -> None:
    Parts(plan_of(tmp_path), None).write(plan_of(tmp_path).runs[0], 0, tmp_path / "part")
    assert not (tmp_path / "part").exists()
    with pytest.raises(DatasetError, match="--dataset=FILE"):
        Parts(plan_of(tmp_path, workload=_workload("trace")), None)
