"""docs/benchmark.md says what the settings and the program say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts import ledger
from facts.sizing import benchmark_machine
from settings.derived.benchmark_load import expected_seconds, load_of
from settings.load import check
from settings.sections.benchmark import Benchmark
from tests.support.settings import make_settings

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    section = GUIDE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table = {name.strip("`"): default.strip("`") for name, default, _ in rows("Settings")}
    fields = {field.alias or name: field.default for name, field in Benchmark.model_fields.items()}
    assert table.keys() == fields.keys()
    for name, default in fields.items():
        if default is not None:
            assert table[name] == (default if isinstance(default, str) else json.dumps(default)), name
        elif name != "concurrency":
            assert table[name] == "none"


def test_every_workload_is_in_the_table_with_its_options() -> None:
    table = {name.strip("`"): options for name, _, options in rows("Workloads")}
    workloads = ledger.section("workloads", "workloads")
    assert table.keys() == workloads.keys()
    for name in ("article", "vllm-1024-512"):
        options = {key: value for key, value in workloads[name]["bench_0_18_1"].items() if key != "dataset-name"}
        assert table[name] == f"`{' '.join(f'--{key} {value}' for key, value in options.items())}`"


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_pasted_into_a_stack_file(example: str) -> None:
    sections: dict[str, Any] = {
        key.removeprefix("vllm-fleet:"): value for key, value in yaml.safe_load(example).items()
    }
    found = check(make_settings(**sections))
    assert [problem.text() for problem in found if "benchmark" in problem.subject and problem.severity != "note"] == []


def test_the_clients_of_the_table_are_those_that_are_counted() -> None:
    table = rows("Sweeps and repeats")
    assert len(table) == 3
    for stack, load, clients, machine in table:
        found = re.search(r"(\d+) nodes?", stack)
        assert found is not None
        counted = load_of(
            make_settings(
                server={"replicas": int(found[1])},
                gateway={"enabled": "gateway" in stack},
                benchmark={"enabled": True},
            )
        )
        said = (load.removesuffix(" in flight"), clients, machine.strip("`"))
        assert said == (f"{counted.connections:,}", str(counted.clients), benchmark_machine(counted.clients))


def test_one_request_at_a_time_takes_the_hours_that_the_guide_names() -> None:
    one = make_settings(server={"replicas": 1}, benchmark={"enabled": True, "concurrency": [1], "repeats": 1})
    assert round(expected_seconds(one) / 3600) == 8
    assert "in eight hours" in GUIDE
