"""One run, started together, at the load, long enough and often enough: each broken in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fleet.bench.certificate import certify
from fleet.bench.certificate.run_checks import slope_of
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Excluded, Measurement, Timeline
from tests.fleet.bench.certificate.sound import check, every_run, failed, sound, with_client, with_rates, with_run
from tests.fleet.bench.measurements import a_bare_measurement, a_measurement, a_point, an_asked

RUN = sound().runs[1]
GO = RUN.clients[2].go_at or 0.0
assert RUN.steady is not None
assert RUN.common is not None
STEADY, COMMON = RUN.steady, RUN.common


def _timeline(rate: Callable[[float], float]) -> Timeline:
    """Output tok/s by second."""
    line = RUN.timeline
    return line.model_copy(update={"output_tokens_per_s": tuple(rate(at) for at in line.at)})


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
    (
        with_run(steady=None, steady_why="the tail begins before the warm-up ends"),
        "steady",
        "repeat-1 was never steady; the tail begins",
    ),
    (with_run(steady=STEADY.model_copy(update={"seconds": 15.0})), "steady", "15.0 s"),
    (with_run(steady=STEADY.model_copy(update={"seconds": 40.0})), "steady", "1.7 median requests"),
    (with_run(timeline=_timeline(lambda at: 100.0 + at)), "drift", "rises by 41.6 % over the window"),
    (
        with_run(timeline=_timeline(lambda at: 200.0 - 0.3 * at)),
        "drift",
        "falls by 11.3 % over the window, noise 0.0 %",
    ),
    (
        with_run(lengths=RUN.lengths.model_copy(update={"input_mean": RUN.lengths.input_mean / 1.06})),
        "mix",
        "6.0 % more input per output token than requests have",
    ),
    (with_run(common=None), "overlap", "at no moment were all clients at work"),
    (
        with_run(common=COMMON.model_copy(update={"total_tokens_per_s": RUN.summed.total_tokens_per_s / 1.2})),
        "overlap",
        "20.0 % above",
    ),
    (with_rates(100.0, 110.0, 120.0), "repeats", "3 repeats vary by 9.1 %"),
]


NEXT = re.compile(
    r"(?:^|[.:;,(] ?)(?:use|raise|fetch|look|measure|keep|give|set|lower|let|restart|spread)\b", re.IGNORECASE
)


def test_every_check_says_what_to_do_when_it_fails() -> None:
    assert [one.id for one in certify(sound()).checks if not NEXT.search(one.why)] == []


NEVER = (
    "never steady: 95 % of 24,000 were reached +0.1 s after the start; that leaves 3.0 s: give each client more prompts"
)


def test_the_headline_of_a_run_that_never_was_steady_is_short_and_its_check_has_the_whole_reason() -> None:
    measurement = with_run(steady=None, steady_why=NEVER)
    opening = "Not certified: the run was not as it should be (steady): point-00-repeat-1 was never steady. 1 of "
    assert certify(measurement).headline.startswith(opening)
    assert check(measurement, "steady").found == f"point-00-repeat-1 was never steady; {NEVER[14:]}"


def test_many_runs_that_never_were_steady_are_counted() -> None:
    measurement = every_run(sound(), lambda run: run.model_copy(update={"steady": None, "steady_why": NEVER}))
    assert "(steady): point-00-repeat-0 and 2 more of 3 runs were never steady. " in certify(measurement).headline
    assert check(measurement, "steady").found.count("95 % of 24,000") == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (10.8, "point-00-repeat-1 was steady for 10.8 s, and at least 20 s are needed. "),
        (40.0, "was steady for 40.0 s, which is 1.7 median requests, and at least 2 are needed. "),
    ],
)
def test_the_headline_of_a_short_window_says_what_is_short_and_what_is_needed(seconds: float, words: str) -> None:
    assert words in certify(with_run(steady=STEADY.model_copy(update={"seconds": seconds}))).headline


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
    def noisy(slope: float) -> Measurement:
        return with_run(timeline=_timeline(lambda at: 100.0 + slope * (at - 64) + (60 if at % 2 else -60)))

    excused = check(noisy(0.12), "drift")
    assert excused.verdict == "passed"
    assert excused.found.endswith("% over the window, which is within its noise")
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
    changes: dict[str, Any] = {"steady": None, "in_flight_mean_steady": None, "steady_why": "never"}
    measurement = with_run(**changes)
    assert failed(measurement) == ["steady"]
    assert {check(measurement, id_).verdict for id_ in ("in-flight", "drift", "mix")} == {"not measured"}


def _sweep() -> Measurement:
    made = a_measurement(an_asked(replicas=2, in_flight_per_node=(500, 2_000)))
    return made.model_copy(update={"runs": tuple(_alike(made).runs)})


def _alike(measurement: Measurement) -> Measurement:
    from tests.fleet.bench.certificate.sound import _counted_alike

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
