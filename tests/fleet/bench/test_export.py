from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fleet.bench.errors import BenchmarkError
from fleet.bench.export import report
from fleet.bench.folder import LOOPBACK_MACHINE, Asked
from fleet.bench.judged import judge, write
from fleet.cli.bench.export import export
from fleet.cli.exits import CommandError
from tests.fleet.bench.measurements import BEGAN, a_bare_measurement, a_judged, a_measurement, a_sweep, an_asked
from tests.fleet.bench.merge.folders import copied, edit

SCHEMA = json.loads((Path(__file__).parent / "llm_d" / "br_v0_2_json_schema.json").read_text())


def checked(measurement: Any = None, point: int | None = None) -> Any:
    """The report, as JSON has it, after llm-d's own schema has accepted it."""
    made = json.loads(json.dumps(report(a_judged(measurement), point), allow_nan=False))
    Draft202012Validator(SCHEMA).validate(made)
    return made


def asked_for(workload: str, **changes: Any) -> Asked:
    """run.json of a workload of that kind."""
    asked = an_asked(**changes)
    return asked.model_copy(update={"workload": asked.workload.model_copy(update={"name": workload, "kind": workload})})


def test_the_schema_would_refuse_what_it_does_not_know() -> None:
    made = checked()
    made["results"]["request_performance"]["aggregate"]["goodput"] = 1
    assert not Draft202012Validator(SCHEMA).is_valid(made)


def test_values_and_units_are_those_of_the_measurement() -> None:
    measurement = a_measurement()
    point, runs = measurement.points[0], measurement.runs
    made = checked(measurement)
    found = made["results"]["request_performance"]["aggregate"]
    ttft = found["latency"]["time_to_first_token"]
    assert ttft["units"] == "ms"
    assert (ttft["mean"], ttft["p50"], ttft["p99p9"]) == (
        point.latencies.ttft.mean,
        point.latencies.ttft.p50,
        point.latencies.ttft.p999,
    )
    assert found["latency"]["time_per_output_token"]["units"] == "ms/token"
    assert found["latency"]["request_latency"]["max"] == point.latencies.e2e.max
    rates = found["throughput"]
    assert {one["units"] for name, one in rates.items() if name != "request_rate"} == {"tokens/s"}
    assert rates["request_rate"]["units"] == "queries/s"
    assert rates["total_token_rate"]["mean"] == pytest.approx(point.total_tokens_per_s.mean)
    assert rates["input_token_rate"]["mean"] == pytest.approx(
        fmean(run.steady.input_tokens_per_s for run in runs if run.steady)
    )
    assert found["requests"]["total"] == sum(run.completed + run.failed for run in runs)
    assert found["requests"]["input_length"]["min"] == min(run.lengths.input_min for run in runs)
    assert made["run"]["time"]["start"] == "2026-11-18T11:06:40+00:00"
    assert BEGAN == 1_795_000_000


def test_stack_and_load_are_those_that_were_asked_for() -> None:
    asked = an_asked(replicas=4)
    scenario = checked(a_measurement(asked))["scenario"]
    (server,), load = scenario["stack"], scenario["load"]["standardized"]
    assert server["standardized"]["accelerator"] == {
        "model": "nvidia-b200",
        "count": 8,
        "parallelism": {"tp": 1, "pp": 1, "dp": 8, "dp_local": 8},
    }
    assert server["standardized"]["replicas"] == 4
    assert server["native"]["args"]["--max-model-len"] == 2560
    assert (load["concurrency"], load["parallelism"], load["source"]) == (8_000, 8, "random")
    assert load["input_seq_len"] == {"distribution": "uniform", "value": 768, "min": 512, "max": 1024}
    assert load["output_seq_len"]["max"] == 512


@pytest.mark.parametrize(("workload", "enforced"), [("sharegpt", False), ("trace", True)])
def test_lengths_of_a_file_are_those_that_were_sent(workload: str, enforced: bool) -> None:
    asked = asked_for(workload)
    asked = asked.model_copy(update={"workload": asked.workload.model_copy(update={"ignore_eos": enforced})})
    load = checked(a_measurement(asked))["scenario"]["load"]["standardized"]
    assert (load["source"], load["input_seq_len"]["distribution"]) == ("sampled", "other")
    assert ("output_seq_len" in load) == enforced


def test_a_shared_prefix_is_named() -> None:
    asked = an_asked()
    workload = asked.workload.model_copy(update={"name": "shared-prefix-512", "kind": "shared-prefix"})
    load = checked(a_measurement(asked.model_copy(update={"workload": workload})))["scenario"]["load"]["standardized"]
    assert load["prefix"]["prefix_len"]["value"] == 512


def test_times_between_chunks_are_not_given_as_times_between_tokens() -> None:
    for tokens in (0, 1):
        made = checked(a_measurement(an_asked(speculative_tokens=tokens)))
        latency = made["results"]["request_performance"]["aggregate"]["latency"]
        assert ("inter_token_latency" in latency) == (tokens == 0)


def test_without_a_steady_window_in_every_repeat_there_is_no_rate() -> None:
    measurement = a_measurement()
    first, *others = measurement.runs
    never = measurement.model_copy(update={"runs": (first.model_copy(update={"steady": None}), *others)})
    assert "throughput" not in checked(never)["results"]["request_performance"]["aggregate"]


def test_bare_results_have_no_scenario() -> None:
    assert "scenario" not in checked(a_bare_measurement())


def test_a_report_is_of_one_load() -> None:
    sweep = a_sweep()
    with pytest.raises(BenchmarkError, match="--point"):
        report(a_judged(sweep))
    with pytest.raises(BenchmarkError, match="no load 9"):
        report(a_judged(sweep), 9)
    made = [checked(sweep, one.point) for one in sweep.points]
    assert [one["scenario"]["load"]["standardized"]["concurrency"] for one in made] == [
        one.connections for one in sweep.points
    ]
    assert len({one["run"]["uid"] for one in made}) == len(made)


def test_a_self_test_is_not_exported() -> None:
    asked = an_asked(repeats=1)
    asked = asked.model_copy(update={"shape": asked.shape.model_copy(update={"machine_type": LOOPBACK_MACHINE})})
    with pytest.raises(BenchmarkError, match="self-test"):
        report(a_judged(a_measurement(asked)))


def test_the_command_writes_the_report(tmp_path: Path) -> None:
    folder, out = copied(tmp_path), tmp_path / "report.json"
    write(judge(folder), folder / "merged.json")
    assert export(folder, out) == 0
    with pytest.raises(CommandError, match="--out"):
        export(folder, folder / "report.json")  # the next merge would read it
    made = json.loads(out.read_text())
    Draft202012Validator(SCHEMA).validate(made)
    assert "not certified" in made["run"]["keywords"]
    edit(folder / "merged.json", lambda merged: merged["certificate"].update(verdict="certified"))
    with pytest.raises(BenchmarkError, match=r"certificate\.verdict"):
        export(folder, out)
