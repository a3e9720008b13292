"""run.json as a list of runs: shares, seeds, each client's command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.benchmark.pods.test_launch_clients import asked
from workloads.benchmark.pods.run_plan import ClientFiles, Plan, Run, client_command, read_plan


def plan_of(folder: Path, name: str = "benchmark-1", **changes: Any) -> Plan:
    file = folder / "run.json"
    file.write_text(json.dumps(asked(**changes)))
    return read_plan(file, name)


def command(plan: Plan, run: int, client: int) -> list[str]:
    files = ClientFiles(Path("/kept"), Path("/scratch"), client)
    return client_command(plan, plan.runs[run], files, endpoint="http://server:8000", tokenizer="/tokenizer")


def option(parts: list[str], name: str) -> str:
    return next(part for part in parts if part.startswith(f"--{name}=")).partition("=")[2]


@given(connections=st.integers(1, 5_000), clients=st.integers(1, 200))
def test_shares_are_complete_and_even(connections: int, clients: int) -> None:
    run = Run(0, 0, 0, connections, clients, 0)
    shares = [run.connections_of(client) for client in range(clients)]
    assert sum(shares) == connections
    assert max(shares) - min(shares) <= 1


def test_the_clients_add_up_to_the_load_with_a_seed_each_over_the_whole_measurement(tmp_path: Path) -> None:
    points = [{"connections": 2_000, "clients": 3}, {"connections": 10, "clients": 1}]
    plan = plan_of(tmp_path, points=points, repeats=2)
    commands = [command(plan, run.index, client) for run in plan.runs for client in range(run.clients)]
    at_once = [int(option(one, "max-concurrency")) for one in commands[:3]]
    assert sorted(at_once) == [666, 667, 667]
    assert len({option(one, "seed") for one in commands}) == len(commands) == 8
    # So that a measurement started later draws other prompts, a server that is still warm must not know them.
    other = plan_of(tmp_path, "benchmark-2", points=points, repeats=2)
    assert abs(plan.seed(plan.runs[0], 0) - other.seed(other.runs[0], 0)) > 12


def test_a_client_draws_what_is_asked_and_warms_up_apart(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, points=[{"connections": 100, "clients": 1}, {"connections": 7, "clients": 1}])
    one = command(plan, 0, 0)
    at = one.index("--")
    assert one[1:3] == ["-m", "workloads.benchmark.pods.bench_client"]
    assert {"--witness=/kept/client-000.witness.json", "--go-file=/scratch/go", "--client=0"} <= set(one[:at])
    given_to_vllm = one[at + 1 :]
    expected = {"--dataset-name=random", "--random-input-len=768", "--ignore-eos", "--save-detailed", "--num-prompts=4"}
    assert expected <= set(given_to_vllm)
    assert {"run=benchmark-1", "point=0", "repeat=0", "client=0", "clients=1"} <= set(given_to_vllm)
    assert given_to_vllm.count("--dataset-name=random") == 1
    assert not [part for part in one if part.startswith("--ready-check")]
    assert [option(command(plan, run, 0), "num-warmups") for run in (0, 1)] == ["32", "7"]


@pytest.mark.parametrize(
    ("kind", "arguments", "has", "has_not"),
    [
        ("sharegpt", {"dataset-name": "sharegpt"}, "--dataset-name=sharegpt", "--ignore-eos"),
        ("sharegpt", {"sharegpt-output-len": "100"}, "--sharegpt-output-len=100", "--custom-output-len=-1"),
        ("trace", {"dataset-name": "custom"}, "--custom-output-len=-1", "--dataset-name=sharegpt"),
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
