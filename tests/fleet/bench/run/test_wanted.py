"""Settings with a launch's changes, and the price that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.wanted import Changes, require_the_same_stack, settings_for
from fleet.clients import stack_outputs
from fleet.clients.errors import LiveError
from fleet.plan.benchmark_price import price_of
from settings.problems import SettingsError
from tests.fleet.bench.run.laptop import BENCHMARK
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fleet.clients.test_stack_outputs import outputs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sharegpt = (
        "  vllm-fleet:benchmark: {enabled: true, workload: sharegpt, dataset: {url: gs://files/share.json, sha256: "
        + "a" * 64
        + "}}\n"
    )
    return project(tmp_path, **{"try": SMALL_STACK + BENCHMARK, "off": SMALL_STACK, "file": SMALL_STACK + sharegpt})


def test_changes_go_over_the_stack_file_and_leave_the_rest(root: Path) -> None:
    benchmark = settings_for(root, "try", Changes()).benchmark
    assert (benchmark.repeats, benchmark.prompts_per_client, benchmark.concurrency) == (1, 100, None)
    changes = Changes(workload="vllm-1024-512", concurrency="100,200", repeats=5, prompts_per_client=200)
    benchmark = settings_for(root, "try", changes).benchmark
    assert benchmark.workload == "vllm-1024-512"
    assert (benchmark.concurrency, benchmark.repeats, benchmark.prompts_per_client) == ((100, 200), 5, 200)
    assert not benchmark.run_on_update


def test_a_made_up_workload_leaves_the_stacks_dataset_out(root: Path) -> None:
    assert settings_for(root, "file", Changes()).benchmark.dataset is not None
    assert settings_for(root, "file", Changes(workload="article")).benchmark.dataset is None
    assert settings_for(root, "file", Changes(workload="trace")).benchmark.dataset is not None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (Changes(repeats=21), "benchmark.repeats"),
        (Changes(repeats=0), "benchmark.repeats"),
        (Changes(concurrency="0"), "benchmark.concurrency"),
        (Changes(prompts_per_client=5), "benchmark.promptsPerClient"),
        (Changes(workload="mine"), "benchmark.workload"),
        (Changes(workload="sharegpt"), "benchmark.dataset"),
    ],
)
def test_a_change_is_refused_as_the_stack_file_would_be(root: Path, changes: Changes, path: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_for(root, "try", changes)
    assert path in str(caught.value)


def test_a_stack_without_a_benchmark_is_told_what_to_write(root: Path) -> None:
    with pytest.raises(BenchmarkError) as caught:
        settings_for(root, "off", Changes())
    for words in (
        "benchmark.enabled",
        "Pulumi.off.yaml",
        "{enabled: true, runOnUpdate: false}",
        "pulumi up --stack off",
    ):
        assert words in str(caught.value)


def test_a_stack_that_is_up_with_other_settings_is_not_measured(root: Path) -> None:
    settings = settings_for(root, "try", Changes())
    same = outputs(
        project="fleet-tests", profile=settings.serving.profile.name, modelRevision=settings.serving.model.revision
    )
    require_the_same_stack(settings, stack_outputs.accept("try", same, "here"))
    with pytest.raises(LiveError, match=r"profile is record, .*serve-chat"):
        require_the_same_stack(settings, stack_outputs.accept("try", {**same, "profile": "record"}, "here"))


def test_the_price_is_the_stacks_rate_over_the_expected_time(root: Path) -> None:
    one = price_of(settings_for(root, "try", Changes()))
    many = price_of(settings_for(root, "try", Changes(repeats=4, concurrency="10,20")))
    assert (one.runs, many.runs) == (1, 8)
    assert many.minutes > one.minutes
    assert one.usd == pytest.approx(one.usd_per_hour * one.minutes / 60)
    for price in (one, many):
        words = price.format()
        assert f"${price.usd_per_hour:,.2f} an hour" in words
        assert f"{price.minutes:.0f} minutes" in words
        assert "at least" in words or not price.at_least
