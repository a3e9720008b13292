"""run.json as a list of runs: shares, seeds, each client's command, and what is said of a file that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.benchmark.pods.test_launch_clients import asked
from workloads.benchmark.pods.run_plan import ClientFiles, Plan, PlanError, client_command, read_plan, share


def plan_of(folder: Path, name: str = "benchmark-1", **changes: Any) -> Plan:
    file = folder / "run.json"
    file.write_text(json.dumps(asked(**changes)))
    return read_plan(file, name)


def command(plan: Plan, run: int, client: int) -> list[str]:
    files = ClientFiles(Path("/kept"), Path("/scratch"), client)
    return client_command(plan, plan.runs[run], 0, files, endpoint="http://server:8000", tokenizer="/tokenizer")


def option(parts: list[str], name: str) -> str:
    return next(part for part in parts if part.startswith(f"--{name}=")).partition("=")[2]


@given(total=st.integers(0, 5_000), parts=st.integers(1, 200))
def test_shares_are_disjoint_complete_and_even(total: int, parts: int) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert [number for one in shares for number in one] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(clients=st.integers(1, 100), pods=st.integers(1, 12))
def test_every_client_has_one_pod_and_pods_without_any_are_the_last(
    tmp_path_factory: pytest.TempPathFactory, clients: int, pods: int
) -> None:
    plan = plan_of(tmp_path_factory.getbasetemp(), points=[{"connections": 100, "clients": clients}], pods=pods)
    shares = [plan.clients_of(plan.runs[0], pod) for pod in range(pods)]
    assert [number for one in shares for number in one] == list(range(clients))
    counts = list(map(len, shares))
    assert all(counts[: min(pods, clients)])
    assert not any(counts[clients:])


def test_points_come_in_order_and_every_one_is_repeated(tmp_path: Path) -> None:
    points = [{"connections": 2_000, "clients": 3}, {"connections": 10, "clients": 1}]
    plan = plan_of(tmp_path, points=points, repeats=2)
    assert [run.folder for run in plan.runs] == [
        "point-00-repeat-0",
        "point-00-repeat-1",
        "point-01-repeat-0",
        "point-01-repeat-1",
    ]
    assert [run.first_prompt for run in plan.runs] == [0, 12, 24, 28]


def test_the_clients_add_up_to_the_load_with_a_seed_each_over_the_whole_measurement(tmp_path: Path) -> None:
    points = [{"connections": 2_000, "clients": 3}, {"connections": 10, "clients": 1}]
    plan = plan_of(tmp_path, points=points, repeats=2)
    commands = [command(plan, run.index, client) for run in plan.runs for client in range(run.clients)]
    at_once = [int(option(one, "max-concurrency")) for one in commands[:3]]
    assert sorted(at_once) == [666, 667, 667]
    assert len({option(one, "seed") for one in commands}) == len(commands) == 8
    # So that a measurement started later draws other prompts, a server that is still warm must not know them.
    other = plan_of(tmp_path, "benchmark-2", points=points, repeats=2)
    assert abs(plan.first_seed - other.first_seed) > 12


def test_a_client_draws_what_is_asked_and_warms_up_apart(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, points=[{"connections": 100, "clients": 1}, {"connections": 7, "clients": 1}])
    one = command(plan, 0, 0)
    at = one.index("--")
    assert one[1:3] == ["-m", "workloads.benchmark.pods.bench_client"]
    assert {"--witness=/kept/client-000.witness.json", "--go-file=/scratch/go", "--client=0", "--pod=0"} <= set(
        one[:at]
    )
    given_to_vllm = one[at + 1 :]
    expected = {"--dataset-name=random", "--random-input-len=768", "--ignore-eos", "--save-detailed", "--num-prompts=4"}
    assert expected <= set(given_to_vllm)
    assert {"run=benchmark-1", "point=0", "repeat=0", "client=0", "clients=1", "workload=article"} <= set(given_to_vllm)
    assert given_to_vllm.count("--dataset-name=random") == 1
    assert not [part for part in one if part.startswith("--ready-check")]
    assert [option(command(plan, run, 0), "num-warmups") for run in (0, 1)] == ["32", "7"]


@pytest.mark.parametrize(
    ("kind", "arguments", "has", "has_not"),
    [
        ("sharegpt", {"dataset-name": "sharegpt"}, "--dataset-name=sharegpt", "--ignore-eos"),
        ("sharegpt", {"sharegpt-output-len": "100"}, "--sharegpt-output-len=100", "--custom-output-len=-1"),
        ("trace", {"dataset-name": "custom"}, "--custom-output-len=-1", "--dataset-name=sharegpt"),
        ("shared-prefix", {"random-prefix-len": "512"}, "--dataset-name=custom", "--random-prefix-len=512"),
        ("random", {"random-prefix-len": "512"}, "--random-prefix-len=512", "--dataset-path=/scratch/client-000.jsonl"),
        ("random", {"extra-flag": ""}, "--extra-flag", "--extra-flag="),
    ],
)
def test_each_kind_of_workload_reads_its_own_source(
    tmp_path: Path, kind: str, arguments: dict[str, str], has: str, has_not: str
) -> None:
    workload = {"name": "w", "kind": kind, "arguments": arguments, "ignore_eos": False}
    parts = command(plan_of(tmp_path, workload=workload), 0, 0)
    assert has in parts
    assert has_not not in parts
    assert ("--dataset-path=/scratch/client-000.jsonl" in parts) == (kind != "random")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": 2}, "schema is 2; these programs read schema 1"),
        ({"points": []}, "points is empty; a measurement has one at least"),
        ({"points": [{"connections": 2, "clients": 3}]}, r"points\[0\].connections is 2, less than its 3 clients"),
        ({"points": [{"connections": 2}]}, r"points\[0\].clients is missing"),
        ({"points": [3]}, r"points\[0\].connections is missing"),
        ({"repeats": True}, "repeats is True; a value of type int is needed"),
        ({"pods": 0}, "pods is 0; 1 is the least"),
        ({"workload": {"kind": "poems"}}, "workload.kind is 'poems'; allowed: random, shared-prefix, sharegpt, trace"),
        ({"served_model": None}, "served_model is None; a value of type str is needed"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        plan_of(tmp_path, **changes)


def test_a_file_that_is_missing_or_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"cannot read .*none.json: No such file"):
        read_plan(tmp_path / "none.json", "x")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(PlanError, match=r"run.json is not JSON"):
        read_plan(tmp_path / "run.json", "x")
