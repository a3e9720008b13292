"""One run, started together, at the load, long enough and often enough: each broken in turn."""

from __future__ import annotations

from typing import Any

import pytest

from benchmark.certificate import certify
from benchmark.certificate.run_checks import slope_noise
from benchmark.errors import BenchmarkError
from benchmark.measurement import Batches, Excluded, Measurement
from tests.benchmark.certificate.sound import check, every_run, failed, sound, with_client, with_rates, with_run
from tests.benchmark.measurements import a_bare_measurement, a_measurement, a_point, an_asked

RUN = sound().runs[1]
GO = RUN.clients[2].go_at or 0.0
assert RUN.steady is not None
assert RUN.common is not None
STEADY, COMMON = RUN.steady, RUN.common


def _batches(values: tuple[float, ...], drift: float) -> Batches:
    return Batches(seconds=8.5, total_tokens_per_s=values, drift_share=drift)


BROKEN: list[tuple[Measurement, str, str]] = [
    (with_run(clients=RUN.clients[:3]), "complete", "3 clients of 4"),
    (with_run(clients=(*RUN.clients[:3], RUN.clients[2])), "complete", "client 2 is there 2 times"),
    (with_run(connections=3_000, in_flight_mean_steady=2_990.0), "complete", "3,000 connections of 4,000"),
    (sound().model_copy(update={"runs": sound().runs[:2]}), "complete", "2 runs of 3"),
    (
        sound().model_copy(update={"excluded": (Excluded(file="client-003.json", why="--exclude"),)}),
        "complete",
        "client-003.json was left out",
    ),
    (with_run(clock_uncertainty_s=0.2), "clocks", "uncertain by 0.200 s in a window of 68 s"),
    (with_run(start_skew_s=1.2), "start", "1.20 s between"),
    (with_client(released_at=GO + 0.4), "start", "client 2 went on 0.40 s after"),
    (with_client(first_request=GO + 3.0), "start", "sent its first request 3.00 s after"),
    (with_client(go_at=GO - 5.0, released_at=GO - 5.0, first_request=GO - 4.9), "start", "told different starts"),
    (with_run(in_flight_mean_steady=3_700.0), "in-flight", "3,700.0 of 4,000 in flight, 92.5 %"),
    (with_run(in_flight_mean_steady=4_200.0), "in-flight", "105.0 %"),
    (with_run(steady=None, steady_why="the tail begins before the warm-up ends"), "steady", "none; the tail begins"),
    (with_run(steady=STEADY.model_copy(update={"seconds": 15.0})), "steady", "15.0 s"),
    (with_run(steady=STEADY.model_copy(update={"seconds": 40.0})), "steady", "1.7 median requests"),
    (with_run(batches=_batches((90.0, 95.0, 100.0, 105.0, 110.0), 0.25)), "drift", "rises by 25.0 %"),
    (
        with_run(batches=_batches((104.0, 102.0, 100.0, 98.0, 96.0), -0.1)),
        "drift",
        "falls by 10.0 % over the window, noise",
    ),
    (with_run(batches=_batches((104.0, 96.0), -0.08)), "drift", "falls by 8.0 %"),
    (with_run(common=None), "overlap", "at no moment were all clients at work"),
    (
        with_run(common=COMMON.model_copy(update={"total_tokens_per_s": RUN.summed.total_tokens_per_s / 1.2})),
        "overlap",
        "20.0 % above",
    ),
    (with_rates(100.0, 110.0, 120.0), "repeats", "3 repeats vary by 9.1 %"),
]


@pytest.mark.parametrize(("measurement", "id_", "words"), BROKEN)
def test_one_broken_thing_fails_its_check_alone(measurement: Measurement, id_: str, words: str) -> None:
    found = check(measurement, id_)
    assert found.verdict == "failed"
    assert words in found.found
    assert failed(measurement) == [id_]
    certificate = certify(measurement)
    assert certificate.verdict == "not certified"
    assert certificate.headline.startswith("Not certified: ")
    assert "a client was the limit" not in certificate.headline


def test_many_late_clients_fail_by_their_median() -> None:
    late = tuple(client.model_copy(update={"released_at": (client.go_at or 0) + 0.02}) for client in RUN.clients)
    assert "the median client went on 20 ms after" in check(with_run(clients=late), "start").found


def test_noise_excuses_a_slope_but_only_so_far() -> None:
    noisy = (80.0, 120.0, 85.0, 118.0, 90.0, 125.0, 88.0, 122.0)
    assert check(with_run(batches=_batches(noisy, 0.11)), "drift").verdict == "passed"
    assert check(with_run(batches=_batches(noisy, 0.21)), "drift").verdict == "failed"


def test_the_noise_of_a_slope_is_that_of_a_regression() -> None:
    # Slope's standard error by hand: residuals +-1 % around a flat line at x = -3/8, -1/8, 1/8, 3/8.
    noise = slope_noise(_batches((101.0, 99.0, 99.0, 101.0), 0.0))
    assert noise == pytest.approx(4.302653 * ((4 * 0.01**2) / 2 / (2 * (0.375**2 + 0.125**2))) ** 0.5, rel=1e-5)
    assert slope_noise(_batches((100.0, 100.0, 100.0), 0.0)) is None
    assert slope_noise(_batches((0.0, 0.0, 0.0, 0.0), 0.0)) is None


def test_too_little_in_flight_is_the_clients_fault_only_when_it_was_saturated() -> None:
    assert check(with_run(in_flight_mean_steady=3_000.0), "in-flight").blames == "run"
    clients = tuple(client.model_copy(update={"cpu_share_mean": 0.97}) for client in RUN.clients)
    measurement = with_run(in_flight_mean_steady=3_000.0, clients=clients)
    assert check(measurement, "in-flight").blames == "client"
    assert certify(measurement).headline.startswith("Not certified: a client was the limit")


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_are_not_measured_and_the_headline_says_what_to_set(repeats: int) -> None:
    measurement = sound(repeats=repeats)
    found = check(measurement, "repeats")
    assert found.verdict == "not measured"
    assert "set benchmark.repeats to 3 or more" in found.found
    certificate = certify(measurement)
    assert certificate.verdict == "not certified"
    assert certificate.headline.endswith("Set benchmark.repeats to 3 or more and run it again.")


def test_bare_results_are_never_certified_and_the_headline_names_the_command() -> None:
    certificate = certify(a_bare_measurement())
    assert certificate.verdict == "not certified"
    assert "bare results of clients: only `fleet bench run --stack STACK` gives" in certificate.headline
    gaps = {one.id for one in certificate.checks if one.verdict == "not measured"}
    assert {"asked", "complete", "clocks", "start", "client-cpu", "prompts", "scrapes", "repeats"} <= gaps


def test_times_of_one_node_are_exact_enough() -> None:
    assert failed(every_run(sound(), lambda run: run.model_copy(update={"clock": "one node"}))) == []


def test_a_run_without_steady_window_has_nothing_to_count_in() -> None:
    changes: dict[str, Any] = {"steady": None, "in_flight_mean_steady": None, "batches": None}
    measurement = with_run(**changes)
    assert failed(measurement) == ["steady"]
    assert check(measurement, "in-flight").verdict == check(measurement, "drift").verdict == "not measured"


def _sweep() -> Measurement:
    made = a_measurement(an_asked(replicas=2, in_flight_per_node=(500, 2_000)))
    return made.model_copy(update={"runs": tuple(_alike(made).runs)})


def _alike(measurement: Measurement) -> Measurement:
    from tests.benchmark.certificate.sound import _counted_alike

    return every_run(measurement, _counted_alike)


def test_one_load_of_a_sweep_is_judged_by_itself() -> None:
    sweep = _sweep()
    assert certify(sweep).headline.startswith("Certified, 2 loads: at most 19")
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
    assert "point 1: 0 runs of 3" in check(cut, "complete").found


def test_a_point_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(BenchmarkError, match="point 7 is not in this measurement; it has 0"):
        certify(sound(), 7)
