"""A baseline: what is stored, what counts as worse, and what is not comparable at all."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.certificate import baseline
from fleet.bench.certificate.baseline import Baseline, compare, of, regressed
from fleet.bench.measurement import Comparison, Measurement, Run
from fleet.bench.repeats import welch_half_width
from fleet.bench.student_t import two_sided
from tests.fleet.bench.certificate.sound import every_run, sound
from tests.fleet.bench.measurements import a_bare_measurement, a_measurement, a_point, an_asked


def _with_totals(*totals: float, measurement: Measurement | None = None) -> Measurement:
    """Repeats with these rates, output a third."""
    made = measurement or sound(repeats=len(totals))
    runs = []
    for run, total in zip(made.runs, totals, strict=True):
        assert run.steady is not None
        rates = {"total_tokens_per_s": total, "input_tokens_per_s": total * 2 / 3, "output_tokens_per_s": total / 3}
        steady = run.steady.model_copy(update=rates)
        runs.append(run.model_copy(update={"steady": steady}))
    points = (a_point(made.asked, runs),)
    return made.model_copy(update={"runs": tuple(runs), "points": points})


def _with_latency(name: str, percentile: str, *values: float) -> Measurement:
    runs = []
    for run, value in zip(sound().runs, values, strict=True):
        changed = getattr(run.latencies, name).model_copy(update={percentile: value})
        runs.append(run.model_copy(update={"latencies": run.latencies.model_copy(update={name: changed})}))
    return sound().model_copy(update={"runs": tuple(runs)})


def _numbers(found: Comparison) -> list[str]:
    """The shares that its reason names, in per cent."""
    return re.findall(r"(±?[\d.]+) %", found.why)


def _one(comparisons: tuple[Comparison, ...], quantity: str) -> Comparison:
    return next(one for one in comparisons if one.quantity == quantity)


BEFORE = of(_with_totals(190_000.0, 191_000.0, 189_000.0))


@pytest.mark.parametrize(
    ("totals", "verdict"),
    [
        ((190_100.0, 190_900.0, 189_200.0), "same within noise"),
        ((180_000.0, 181_000.0, 179_000.0), "regressed"),
        ((200_000.0, 201_000.0, 199_000.0), "improved"),
        ((175_000.0, 205_000.0, 170_000.0), "same within noise"),
    ],
)
def test_a_rate_is_worse_only_beyond_noise(totals: tuple[float, ...], verdict: str) -> None:
    found = compare(_with_totals(*totals), BEFORE)
    total = _one(found, "total tok/s")
    if max(totals) - min(totals) > 20_000:
        # Repeats that far apart are not certified at all.
        assert total.verdict == "not comparable"
        found = compare(_with_totals(*totals), BEFORE, certificate=_passed())
        total = _one(found, "total tok/s")
    assert total.verdict == verdict
    assert _one(found, "output tok/s").verdict == verdict
    assert regressed(found) == (verdict == "regressed")
    assert total.change_share == pytest.approx(sum(totals) / 570_000 - 1)


def _passed() -> Any:
    from fleet.bench.certificate import certify

    return certify(sound())


def test_the_noise_is_half_of_welchs_interval() -> None:
    # Source: by hand. Variances 1e6 and 4e6, three values each: error^2 5e6/3, degrees 2 * 25 / 17.
    half = welch_half_width((190_000.0, 191_000.0, 189_000.0), (180_000.0, 182_000.0, 178_000.0))
    assert half == pytest.approx(two_sided(50 / 17) * (5e6 / 3) ** 0.5)
    found = compare(_with_totals(180_000.0, 182_000.0, 178_000.0), BEFORE)
    assert _one(found, "total tok/s").noise_share == pytest.approx(half / 190_000)
    assert _numbers(_one(found, "total tok/s")) == ["5.3", "95", "±2.2"]


def test_a_sure_change_of_no_importance_is_none() -> None:
    before = of(_with_totals(190_000.0, 190_001.0, 189_999.0))
    found = _one(compare(_with_totals(189_000.0, 189_001.0, 188_999.0), before), "total tok/s")
    assert found.verdict == "same within noise"
    assert _numbers(found)[-1] == "1"


@pytest.mark.parametrize(
    ("name", "percentile", "quantity"), [("ttft", "p99", "TTFT p99, ms"), ("tpot", "p50", "TPOT p50, ms")]
)
def test_a_latency_is_worse_when_it_is_higher(name: str, percentile: str, quantity: str) -> None:
    before = of(_with_latency(name, percentile, 100.0, 101.0, 99.0))
    slower = compare(_with_latency(name, percentile, 110.0, 111.0, 109.0), before)
    assert _one(slower, quantity).verdict == "regressed"
    assert _one(slower, "total tok/s").verdict == "same within noise"
    faster = compare(_with_latency(name, percentile, 90.0, 91.0, 89.0), before)
    assert _one(faster, quantity).verdict == "improved"
    assert (
        _one(compare(_with_latency(name, percentile, 102.0, 102.1, 101.9), before), quantity).verdict
        == "same within noise"
    )


def _asked(**changes: Any) -> Measurement:
    asked = sound().asked
    assert asked is not None
    return sound().model_copy(update={"asked": asked.model_copy(update=changes)})


def _shape(**changes: Any) -> Measurement:
    asked = sound().asked
    assert asked is not None
    return _asked(shape=asked.shape.model_copy(update=changes))


def _workload(**changes: Any) -> Measurement:
    asked = sound().asked
    assert asked is not None
    return _asked(workload=asked.workload.model_copy(update=changes))


@pytest.mark.parametrize(
    ("measurement", "words"),
    [
        (_shape(engine_version="0.19.0"), "engine_version was 0.18.0, is 0.19.0"),
        (_shape(flags={"max-model-len": 2560}), "flag attention-backend was FLASHINFER, is not set"),
        (_shape(env={}), "env VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS was 1, is not set"),
        (_workload(ignore_eos=False), "the workload differs (ignore_eos was True, is False)"),
        (
            every_run(sound(), lambda run: run.model_copy(update={"start_skew_s": 9.0})),
            "(start)",
        ),
    ],
)
def test_another_shape_or_no_certificate_is_not_comparable_and_says_why(measurement: Measurement, words: str) -> None:
    found = compare(measurement, of(sound()))
    assert {one.verdict for one in found} == {"not comparable"}
    assert all(words in one.why for one in found)
    assert not regressed(found)


def test_two_files_are_two_workloads_and_an_unknown_one_is_none() -> None:
    def of_file(dataset: str | None) -> Measurement:
        return _workload(kind="trace", dataset=dataset)

    def why(new: str | None, old: str | None) -> str:
        found = compare(of_file(new), of(of_file(old), _passed()), certificate=_passed())
        return "" if found[0].verdict != "not comparable" else found[0].why

    assert why("5b41", "5b41") == ""
    assert "(dataset was 5b41, is 77e0)" in why("77e0", "5b41")
    assert why(None, None).count("file") == 2


def _twice_as_long(run: Run) -> Run:
    """The same rates of twice as many requests on as many connections."""
    return run.model_copy(update={"completed": 2 * run.completed})


def test_latencies_of_longer_runs_are_not_comparable_and_rates_are() -> None:
    before = of(sound())
    assert before.points[0].requests_per_connection == 4.0
    found = compare(every_run(sound(), _twice_as_long), before, certificate=_passed())
    kinds = {one.quantity: one.verdict for one in found}
    assert kinds.pop("total tok/s") == kinds.pop("output tok/s") == "same within noise"
    assert set(kinds.values()) == {"not comparable"}
    why = _one(found, "TTFT p50, ms").why
    assert "4.00" in why
    assert "8.00" in why
    assert "benchmark.promptsPerClient" in why


def test_more_loads_widen_the_interval_of_each() -> None:
    """Four chances to be unlucky are no reason to call one of them worse."""
    runs = (100.0, 101.0, 99.0)
    old = of(sound()).points[0].model_copy(update={"runs": {"total_tokens_per_s": runs}})
    new = old.model_copy(update={"runs": {"total_tokens_per_s": tuple(0.97 * one for one in runs)}})

    def verdict(loads: int) -> Comparison:
        how = baseline._How(title="x", reasons=(), loads=loads, name_load=True)
        return next(baseline._compare_point(old, new, how))

    alone, among = verdict(1), verdict(4)
    assert alone.verdict == "regressed"
    assert _numbers(alone) == ["3.0", "95", "±2.2"]
    assert among.verdict == "same within noise"
    assert among.noise_share / alone.noise_share == pytest.approx(two_sided(4, 0.9875) / two_sided(4), rel=0.01)
    assert _numbers(among) == ["3.0", "98.8", "±3.5", "95"]
    assert "4 loads" in among.why


def test_the_loads_that_both_have_are_counted() -> None:
    sweep = a_measurement(an_asked(replicas=2, in_flight_per_node=(500, 1_000, 2_000)))
    found = compare(sweep, of(sweep, _passed()), certificate=_passed())
    assert all("3 loads" in one.why for one in found)
    alone = compare(sound(), of(sweep, _passed()), certificate=_passed())
    assert "loads" not in _one(alone, "total tok/s").why


def test_flags_spelled_otherwise_are_the_same_shape() -> None:
    asked = sound().asked
    assert asked is not None
    flags = {**asked.shape.flags, "max_model_len": asked.shape.flags["max-model-len"]}
    del flags["max-model-len"]
    assert _one(compare(_shape(flags=flags), of(sound())), "total tok/s").verdict == "same within noise"


def test_an_uncertified_baseline_and_bare_results_are_not_comparable() -> None:
    bare = of(a_bare_measurement())
    assert bare.certificate == "not certified"
    found = compare(sound(), bare)
    assert "(client-cpu, " in found[0].why
    assert found[0].why.count("the baseline ") == 2


def test_loads_that_only_one_side_has_are_named() -> None:
    point = of(sound()).points[0].model_copy(update={"connections": 2_000})
    other = of(sound()).model_copy(update={"points": (point,)})
    found = compare(sound(), other)
    assert [(one.quantity, one.verdict) for one in found] == [
        ("total tok/s at 2,000 in flight", "not comparable"),
        ("total tok/s at 4,000 in flight", "not comparable"),
    ]
    assert [one.after.repeats for one in found] == [0, 3]


def test_a_single_run_shows_no_spread_and_says_what_to_repeat() -> None:
    before = of(_with_totals(190_000.0, measurement=sound(repeats=1)))
    assert (before.certificate, before.lacks) == ("not certified", {"repeats": "not measured"})
    for quantity in ("total tok/s", "TTFT p99, ms"):
        single = _one(compare(_with_totals(170_000.0, measurement=sound(repeats=1)), before), quantity)
        assert (single.verdict, single.why.startswith("the baseline ")) == ("not comparable", True)
        assert "(benchmark.repeats)" in single.why
        repeated = _one(compare(_with_totals(170_000.0, measurement=sound(repeats=1)), BEFORE), quantity)
        assert repeated.why.startswith("this measurement ")


RATES = st.lists(st.floats(1.0, 1e7), min_size=2, max_size=6)


@given(RATES, RATES)
def test_the_interval_is_symmetric_and_grows_with_the_numbers(before: list[float], after: list[float]) -> None:
    half = welch_half_width(before, after)
    assert half >= 0
    assert half == pytest.approx(welch_half_width(after, before))
    assert welch_half_width([2 * one for one in before], [2 * one for one in after]) == pytest.approx(2 * half)


@given(RATES)
def test_nothing_regresses_against_itself(values: list[float]) -> None:
    point = baseline.BaselinePoint(
        connections=1,
        requests_per_connection=5.0,
        estimates={},
        latencies_ms={},
        runs={"total_tokens_per_s": tuple(values)},
    )
    certified = Baseline(
        name="x",
        created="",
        shape=BEFORE.shape,
        workload=BEFORE.workload,
        points=(point,),
        certificate="certified",
        headline="",
        lacks={},
    )
    how = baseline._How(title="x", reasons=(), loads=1, name_load=False)
    found = list(baseline._compare_point(certified.points[0], certified.points[0], how))
    assert [one.verdict for one in found] == ["same within noise"]
