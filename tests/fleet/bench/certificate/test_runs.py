"""One run, started together, at the load, long enough and often enough: each broken in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fleet.bench.certificate import certify
from fleet.bench.certificate.run_checks import slope_of
from fleet.bench.certificate.subject import RUN_COMMAND
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Measurement, Timeline
from tests.fleet.bench.certificate.sound import (
    check,
    counted_alike,
    every_run,
    failed,
    headline_blames,
    sound,
    with_run,
)
from tests.fleet.bench.measurements import a_bare_measurement, a_measurement, a_point, an_asked

RUN = sound().runs[1]


def _timeline(rate: Callable[[float], float]) -> Timeline:
    """Output tok/s by second."""
    line = RUN.timeline
    return line.model_copy(update={"output_tokens_per_s": tuple(rate(at) for at in line.at)})


NEXT = re.compile(r"(?:^|[.:;,(] ?)(?:use|raise|fetch|check|measure|keep|set|lower|restart|spread)\b", re.IGNORECASE)


def test_every_check_says_what_to_do_when_it_fails() -> None:
    assert [one.id for one in certify(sound()).checks if not NEXT.search(one.why)] == []


NEVER = (
    "never steady: 95 % of 24,000 were reached +0.1 s after the start; that leaves 3.0 s: give each client more prompts"
)


def test_the_headline_of_a_run_that_never_was_steady_is_short_and_its_check_has_the_whole_reason() -> None:
    measurement = with_run(steady=None, steady_why=NEVER)
    assert headline_blames(measurement) == "run"
    assert NEVER[14:] not in certify(measurement).reason
    assert check(measurement, "steady").found.endswith(NEVER[14:])


def test_many_runs_that_never_were_steady_are_counted() -> None:
    measurement = every_run(sound(), lambda run: run.model_copy(update={"steady": None, "steady_why": NEVER}))
    assert "2 more of 3 runs" in certify(measurement).reason
    assert check(measurement, "steady").found.count("95 % of 24,000") == 1


def test_noise_excuses_a_slope_but_only_so_far() -> None:
    def noisy(slope: float) -> Measurement:
        return with_run(timeline=_timeline(lambda at: 100.0 + slope * (at - 64) + (60 if at % 2 else -60)))

    excused = check(noisy(0.12), "drift")
    assert excused.verdict == "passed"
    assert "noise" in excused.found
    assert "noise" not in check(sound(), "drift").found
    assert check(noisy(0.4), "drift").verdict == "failed"
    assert check(with_run(timeline=_timeline(lambda at: 100.0 + 0.12 * (at - 64))), "drift").verdict == "failed"


def test_waves_of_prompts_are_no_drift() -> None:
    totals = tuple(
        total * (1.2 if second % 24 < 8 else 0.9) for second, total in enumerate(RUN.timeline.total_tokens_per_s)
    )
    assert failed(with_run(timeline=RUN.timeline.model_copy(update={"total_tokens_per_s": totals}))) == []


def test_the_slope_of_a_line_is_its_own_and_its_noise_a_regressions() -> None:
    exact = slope_of([(float(at), 100.0 + 2 * at) for at in range(11)], 10.0)
    assert exact is not None
    assert exact.share == pytest.approx(20 / 110)
    assert exact.noise == pytest.approx(0, abs=1e-9)
    # By hand: residuals of one in a hundred about a flat line; t of 6 degrees of freedom is 2.447; sum of squares 42.
    flat = slope_of([(float(at), 100.0 + sign) for at, sign in enumerate((1, -1, -1, 1, 1, -1, -1, 1))], 7.0)
    assert flat is not None
    assert flat.share == pytest.approx(0, abs=1e-12)
    assert flat.noise == pytest.approx(2.44691 * (8 * 0.01**2 / 6 / 42) ** 0.5 * 7, rel=1e-5)
    assert slope_of([(float(at), 1.0) for at in range(5)], 5.0) is None
    assert slope_of([(float(at), 0.0) for at in range(9)], 9.0) is None


def test_too_little_in_flight_is_the_clients_fault_only_when_it_was_saturated() -> None:
    assert check(with_run(in_flight_mean_steady=3_000.0), "in-flight").blames == "run"
    clients = tuple(client.model_copy(update={"cpu_share_mean": 0.97}) for client in RUN.clients)
    measurement = with_run(in_flight_mean_steady=3_000.0, clients=clients)
    assert check(measurement, "in-flight").blames == "client"
    assert headline_blames(measurement) == "limit"


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_are_not_measured_and_the_headline_says_what_to_set(repeats: int) -> None:
    measurement = sound(repeats=repeats)
    found = check(measurement, "repeats")
    assert found.verdict == "not measured"
    assert "benchmark.repeats" in found.found
    certificate = certify(measurement)
    assert certificate.verdict == "not certified"
    assert "benchmark.repeats" in certificate.reason


def test_bare_results_are_never_certified_and_the_headline_names_the_command() -> None:
    certificate = certify(a_bare_measurement())
    assert certificate.verdict == "not certified"
    assert RUN_COMMAND in certificate.reason
    gaps = {one.id for one in certificate.checks if one.verdict == "not measured"}
    assert {"asked", "complete", "clocks", "start", "client-cpu", "prompts", "scrapes", "repeats"} <= gaps


def test_times_of_one_node_are_exact_enough() -> None:
    assert failed(every_run(sound(), lambda run: run.model_copy(update={"clock": "one node"}))) == []


def test_a_run_without_steady_window_has_nothing_to_count_in() -> None:
    changes: dict[str, Any] = {"steady": None, "in_flight_mean_steady": None, "steady_why": "never"}
    measurement = with_run(**changes)
    assert failed(measurement) == ["steady"]
    assert {check(measurement, id_).verdict for id_ in ("in-flight", "drift", "mix")} == {"not measured"}


def _sweep() -> Measurement:
    made = a_measurement(an_asked(replicas=2, in_flight_per_node=(500, 2_000)))
    return every_run(made, counted_alike)


def test_one_load_of_a_sweep_is_judged_by_itself() -> None:
    sweep = _sweep()
    assert certify(sweep).verdict == "certified"
    assert "2 loads" in certify(sweep).headline
    broken = sweep.model_copy(
        update={
            "runs": tuple(run.model_copy(update={"start_skew_s": 4.0}) if run.point == 1 else run for run in sweep.runs)
        }
    )
    assert certify(broken).verdict == "not certified"
    assert certify(broken, 0).verdict == "certified"
    assert certify(broken, 1).verdict == "not certified"


def test_a_load_that_never_ran_is_missed() -> None:
    sweep = _sweep()
    runs = tuple(run for run in sweep.runs if run.point == 0)
    cut = sweep.model_copy(update={"runs": runs, "points": (a_point(sweep.asked, runs),)})
    assert "load 2: 0 runs of 3" in check(cut, "complete").found


def test_a_point_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(BenchmarkError, match=r"point 7 .* 0$"):
        certify(sound(), 7)
