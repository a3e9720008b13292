"""Tests of the fit: the numbers in the repository are what fitting the article's rows gives, and few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from facts import ledger
from fleet.plan.model import calibration as module
from fleet.plan.model.calibration import Parameters, calibration, contents
from tests.fleet.plan.model.published import FITTED, Role, fit, kept, least_squares, left_out, residuals, rows

TAKEN = calibration()


@pytest.fixture
def other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another calibration file, and nothing remembered before or after."""
    monkeypatch.setattr(module, "FILE", tmp_path / "calibration.yaml")
    module.contents.cache_clear()
    calibration.cache_clear()
    yield tmp_path
    module.contents.cache_clear()
    calibration.cache_clear()


def test_fitting_again_gives_the_parameters_in_the_repository() -> None:
    again = fit(TAKEN.parameters)
    for name in (*FITTED, "wait_share"):
        assert getattr(again, name) == pytest.approx(getattr(TAKEN.parameters, name), rel=2e-4), name


def test_fitting_from_elsewhere_ends_at_the_same_place() -> None:
    elsewhere = replace(
        TAKEN.parameters,
        host_ms_per_step=30.0,
        gpu_share=0.38,
        context_ms_per_1000_tokens=0.05,
        tensor_parallel_ms_per_step=20.0,
        wait_s=6.0,
    )
    again = fit(elsewhere)
    for name in FITTED:
        assert getattr(again, name) == pytest.approx(getattr(TAKEN.parameters, name), rel=0.01), name


def test_a_configuration_left_out_of_the_fit_is_predicted_within_3_percent() -> None:
    found = left_out()
    assert set(found) == {
        "phases.dp8-4096",
        "phases.no-mtp-095",
        "phases.mtp2-095",
        "phases.mtp1-092",
        "cluster_ip.nodes-1",
    }
    worst = max(max(1 + error / 100, 1 / (1 + error / 100)) for error in found.values())
    assert TAKEN.accuracy.configuration_percent == ceil(100 * (worst - 1)) == 3


def test_contention_spans_what_rounds_to_the_row_of_two_nodes() -> None:
    found = sorted(parameters.contention_per_node for parameters in TAKEN.rounding)
    assert found[0] < TAKEN.parameters.contention_per_node < found[1]
    assert found == pytest.approx([2 * 95_317 / 190_500 - 1, 2 * 95_317 / 189_500 - 1], rel=1e-3)


def test_other_host_times_were_fitted_to_the_record_and_explain_it_as_well() -> None:
    record_rows = ("phases.mtp1-092", "phases.mtp2-095", "phases.no-mtp-095", "cluster_ip.nodes-1")
    record = [row for row in kept() if row.id in record_rows]
    for variant in TAKEN.variants.values():
        start = replace(TAKEN.parameters, host_ms_per_step=variant.host_ms_per_step)
        again = least_squares(start, ("gpu_share", "traffic_over_arithmetic"), record)
        assert again.gpu_share == pytest.approx(variant.gpu_share, rel=2e-3)
        assert again.traffic_over_arithmetic == pytest.approx(variant.traffic_over_arithmetic, rel=2e-3)
    hosts = [variant.host_ms_per_step for variant in TAKEN.variants.values()]
    assert min(hosts) < TAKEN.parameters.host_ms_per_step < max(hosts)


def test_there_are_fewer_free_parameters_than_fitted_throughputs() -> None:
    throughputs = [row for row in rows("fitted") if row.metric == "total_tokens_per_s"]
    assert len(throughputs) == 9
    assert len(FITTED) == 7
    free = set(Parameters.__dataclass_fields__) - {
        "uncaptured_ms_per_step",
        "traffic_over_arithmetic",
        "wait_share",
        "slowdown",
    }
    assert free == set(FITTED)


def test_a_part_moved_by_a_hundredth_explains_the_fitted_rows_less_well() -> None:
    best = sum(value**2 for value in residuals(TAKEN.parameters, kept()))
    for name in FITTED[:5]:
        for factor in (0.99, 1.01):
            moved = replace(TAKEN.parameters, **{name: getattr(TAKEN.parameters, name) * factor})
            assert sum(value**2 for value in residuals(moved, kept())) > best, (name, factor)


def test_no_parameter_rests_on_a_row_that_is_predicted() -> None:
    fitted = {row.id.partition(":")[0] for row in rows("fitted")}
    for name, entry in contents()["fitted"].items():
        assert set(entry["rows"]) <= fitted, name
    for entry in contents()["memory"].values():
        for row in entry.get("rows", ()):
            assert row.removeprefix("memory.") in ledger.section("memory", "values")


def test_what_was_not_fitted_has_a_source() -> None:
    for entry in contents()["fixed"].values():
        assert ledger.source(entry["source"])
    without_graphs_ms, with_graphs_ms = 1024 / 13.9, 1024 / 21.0
    assert TAKEN.parameters.uncaptured_ms_per_step == pytest.approx(without_graphs_ms - with_graphs_ms, abs=0.05)


def test_intervals_are_as_wide_as_the_errors_were() -> None:
    def largest(metrics: set[str], *roles: Role) -> float:
        ratios = [row.predicted.value / row.published for row in rows(*roles) if row.metric in metrics]
        return max(100 * (max(ratio, 1 / ratio) - 1) for ratio in ratios)

    accuracy = TAKEN.accuracy
    assert accuracy.throughput_percent == ceil(largest({"total_tokens_per_s"}, "predicted"))
    assert accuracy.tpot_percent == ceil(largest({"tpot_ms"}, "fitted", "predicted"))
    assert accuracy.ttft_percent == ceil(largest({"ttft_ms"}, "fitted"))


@pytest.mark.parametrize("text", ["fitted: {}\n", "fitted: 3\n"])
def test_a_file_of_another_form_is_named(other_data: Path, text: str) -> None:
    (other_data / "calibration.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ledger.LedgerError, match=r"calibration\.yaml: .*fixed"):
        module.calibration()
