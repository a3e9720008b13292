"""Benchmarks that would not measure what they were asked to are refused before anything is paid for."""

from __future__ import annotations

from typing import Any

import pytest

from facts import ledger
from facts.finding import Finding
from settings.checks.declared_server import DeclaredServer
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.benchmark import Benchmark, Dataset
from settings.stack_file import read as read_stack_file
from tests.inventory import ROOT
from tests.support.rows import each_row
from tests.support.settings import make_settings

SHA = "0123456789abcdef" * 4
FILE = {"url": "https://example.com/requests.jsonl", "sha256": SHA}


def found(**benchmark: Any) -> dict[str, Finding]:
    settings = make_settings(benchmark={"enabled": True, **benchmark})
    return {problem.id: problem for problem in check(settings) if "benchmark" in problem.subject}


def refused(**benchmark: Any) -> set[str]:
    return {id_ for id_, problem in found(**benchmark).items() if problem.severity == "error"}


def test_the_workloads_are_the_ledgers() -> None:
    choices = Benchmark.model_fields["workload"].annotation.__args__  # type: ignore[union-attr]
    assert tuple(choices) == tuple(ledger.section("workloads", "workloads"))


@pytest.mark.parametrize("workload", ["sharegpt", "trace"])
def test_a_file_workload_needs_its_file_and_takes_it(workload: str) -> None:
    problem = found(workload=workload)["workload-without-dataset"]
    assert (problem.severity, problem.subject, problem.found) == ("error", "vllm-fleet:benchmark.dataset", None)
    assert refused(workload=workload, dataset=FILE) == set()


@pytest.mark.parametrize("workload", ["article", "vllm-1024-512", "shared-prefix-512"])
def test_the_other_workloads_take_no_file(workload: str) -> None:
    assert found(workload=workload, dataset=FILE)["without-effect"].subject == "vllm-fleet:benchmark.dataset"
    assert refused(workload=workload) == set()


def test_a_cloud_storage_url_is_split_into_bucket_and_object() -> None:
    assert Dataset(url="gs://my-traces/2026/11/day.jsonl", sha256=SHA).bucket_and_object == (
        "my-traces",
        "2026/11/day.jsonl",
    )
    assert Dataset(url="https://example.com/x", sha256=SHA).bucket_and_object is None
    assert refused(workload="trace", dataset={"url": "gs://my-traces/day.jsonl", "sha256": SHA}) == set()


URLS = (
    *(
        "http://example.com/x",
        "gs://bucket",
        "gs://Bucket/object",
        "gs://my-traces/2026/11/a b.jsonl",
        "s3://bucket/key",
    ),
    *("requests.jsonl", "https://user@example.com/x", "https:///x", "https://[::1/x"),
)


@each_row(
    ("key", "benchmark"),
    [
        *(("dataset.url", {"workload": "trace", "dataset": {"url": url, "sha256": SHA}}) for url in URLS),
        *(("concurrency", {"concurrency": one}) for one in ([], [0], ["100"], 100, [100_001], list(range(1, 34)))),
        *(("repeats", {"repeats": one}) for one in (0, 21, 1.5)),
    ],
)
def test_a_value_outside_its_range_is_refused_by_its_key(key: str, benchmark: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=rf"benchmark\.{key}"):
        found(**benchmark)


def test_a_load_above_what_the_scheduler_admits_repeats_the_articles_lesson() -> None:
    admitted = 8 * DeclaredServer(make_settings()).sequences
    problem = found(concurrency=[500, admitted + 1])["sequences-below-load"]
    assert problem.severity == "error"
    assert problem.subject == "vllm-fleet:benchmark.concurrency"
    assert str(admitted) in problem.allowed
    assert "sequences-below-load" not in found(concurrency=[500, admitted])
    # A sweep that nobody runs measures no queue.
    assert "sequences-below-load" not in found(enabled=False, concurrency=[admitted + 1])


def context(tokens: int) -> dict[str, Any]:
    return {"replicas": 1, "engine": {"maxModelLen": tokens}, "needs": {"contextTokens": 1024}}


LONG = {"concurrency": [1, 16, 2000]}


@each_row(
    ("server", "benchmark", "id_", "severity"),
    [
        # One pod has ports for so many connections and vCPUs for so many clients.
        *(({"replicas": 12}, each, "benchmark-connections", None) for each in ({}, {"connectionsPerClient": 500})),
        *(({"replicas": 12}, each, "benchmark-clients", None) for each in ({}, {"connectionsPerClient": 500})),
        ({"replicas": 12}, {"connectionsPerClient": 400}, "benchmark-clients", "error"),
        ({"replicas": 13}, {}, "benchmark-connections", "error"),
        ({"replicas": 13}, {"enabled": False}, "benchmark-connections", None),
        ({"replicas": 1}, LONG, "benchmark-takes-long", "warning"),
        ({"replicas": 1}, {**LONG, "promptsPerClient": 100}, "benchmark-takes-long", None),
        (context(2048), {"workload": "vllm-1024-512"}, "workload-above-context", "error"),
        (context(2304), {"workload": "vllm-1024-512"}, "workload-above-context", None),
        # A paused fleet may keep its benchmark prepared.
        ({"replicas": 0}, {}, "benchmark-without-server", "error"),
        ({"replicas": 0}, {"runOnUpdate": False}, "benchmark-without-server", None),
    ],
)
def test_what_a_benchmark_could_not_measure_is_told(
    server: dict[str, Any], benchmark: dict[str, Any], id_: str, severity: str | None
) -> None:
    told = {
        one.id: one.severity for one in check(make_settings(server=server, benchmark={"enabled": True, **benchmark}))
    }
    assert told.get(id_) == severity


def test_a_finding_says_how_many_connections_or_tokens_there_would_be() -> None:
    many = make_settings(server={"replicas": 13}, benchmark={"enabled": True})
    (connections,) = (one for one in check(many) if one.id == "benchmark-connections")
    for told in ("13 replicas with 2,000 each make 26,000", "1,923 each", "12 replicas"):
        assert told in connections.allowed
    short = make_settings(server=context(2048), benchmark={"enabled": True, "workload": "vllm-1024-512"})
    assert "2,304" in next(one.allowed for one in check(short) if one.id == "workload-above-context")


@pytest.mark.parametrize("stack", ["dev", "spot", "gateway", "cud"])
def test_the_stacks_of_this_repository_measure_what_they_say(stack: str) -> None:
    settings = parse(stack, read_stack_file(ROOT, stack).config)
    assert [one.id for one in check(settings) if "benchmark" in one.subject and one.severity != "note"] == []


def test_a_wrong_load_is_told_once() -> None:
    with pytest.raises(SettingsError) as caught:
        found(concurrency=[0])
    (problem,) = caught.value.problems
    assert (problem.subject, problem.found, problem.allowed) == ("vllm-fleet:benchmark.concurrency[0]", 0, ">= 1")
    with pytest.raises(SettingsError) as caught:
        found(concurrency=[])
    (problem,) = caught.value.problems
    assert (problem.found, problem.allowed) == ([], "at least 1 item(s)")


def prompts(problem: Finding) -> int:
    return int(problem.allowed.split(" ")[1].replace(",", ""))


def test_more_prompts_than_a_pod_can_remember_are_a_finding() -> None:
    assert "benchmark-memory" not in found(promptsPerClient=50_000)
    problem = found(promptsPerClient=1_000_000)["benchmark-memory"]
    assert problem.severity == "warning"
    assert problem.subject == "vllm-fleet:benchmark.promptsPerClient"
    most = prompts(problem)
    assert 50_000 < most < 1_000_000
    assert "benchmark-memory" not in found(promptsPerClient=most - most // 10)
    # Without speculation a token is a chunk, and each chunk's moment is kept.
    plain = make_settings(
        server={"replicas": 12, "engine": {"speculative": None}},
        benchmark={"enabled": True, "promptsPerClient": 1_000_000},
    )
    (tokens,) = (one for one in check(plain) if one.id == "benchmark-memory")
    assert prompts(tokens) < most
