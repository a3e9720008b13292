"""Two measurements: what counts as worse, and what cannot be compared at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.bench.compare import Compared, _changes, _loads, compare
from fleet.bench.measurement import Measurement, Run
from fleet.bench.repeats import welch_half_width
from fleet.bench.student_t import two_sided
from tests.fleet.bench.certificate.sound import every_run, sound
from tests.support.rows import each_row


def _scaled(factors: tuple[float, ...], change: Callable[[Run, float], Run]) -> Measurement:
    runs = [change(run, factor) for run, factor in zip(sound().runs, factors, strict=True)]
    return sound().model_copy(update={"runs": tuple(runs)})


def _rates(*totals: float) -> Measurement:
    """Runs with these rates, of as much output as there was."""

    def change(run: Run, total: float) -> Run:
        assert run.steady is not None
        factor = total / run.steady.total_tokens_per_s
        rates = {
            f"{kind}_tokens_per_s": getattr(run.steady, f"{kind}_tokens_per_s") * factor
            for kind in ("total", "input", "output")
        }
        return run.model_copy(update={"steady": run.steady.model_copy(update=rates)})

    return _scaled(totals, change)


def _ttft_p99(*values: float) -> Measurement:
    def change(run: Run, value: float) -> Run:
        ttft = run.latencies.ttft.model_copy(update={"p99": value})
        return run.model_copy(update={"latencies": run.latencies.model_copy(update={"ttft": ttft})})

    return _scaled(values, change)


def _asked(**changes: Any) -> Measurement:
    asked = sound().asked
    return sound().model_copy(update={"asked": asked.model_copy(update=changes)})


def _verdicts(compared: Compared) -> dict[str, str]:
    return {change.quantity: change.verdict for change in compared.changes}


BEFORE = (190_000.0, 191_000.0, 189_000.0)


@each_row(
    ("made", "before", "after", "quantity", "verdict"),
    [
        (_rates, BEFORE, (190_100.0, 190_900.0, 189_200.0), "total tok/s", "same"),
        (_rates, BEFORE, (180_000.0, 181_000.0, 179_000.0), "total tok/s", "worse"),
        (_rates, BEFORE, (200_000.0, 201_000.0, 199_000.0), "output tok/s", "better"),
        (_rates, BEFORE, (175_000.0, 205_000.0, 170_000.0), "total tok/s", "same"),  # within their own spread
        (_rates, (190_000.0, 190_001.0, 189_999.0), (189_000.0, 189_001.0, 188_999.0), "total tok/s", "same"),
        (_ttft_p99, (100.0, 101.0, 99.0), (110.0, 111.0, 109.0), "TTFT p99, ms", "worse"),
        (_ttft_p99, (100.0, 101.0, 99.0), (90.0, 91.0, 89.0), "TTFT p99, ms", "better"),
        (_ttft_p99, (100.0, 101.0, 99.0), (102.0, 102.1, 101.9), "TTFT p99, ms", "same"),
    ],
)
def test_a_quantity_is_worse_only_beyond_noise(
    made: Callable[..., Measurement],
    before: tuple[float, ...],
    after: tuple[float, ...],
    quantity: str,
    verdict: str,
) -> None:
    compared = compare(made(*before), made(*after))
    assert compared.obstacles == ()
    assert _verdicts(compared)[quantity] == verdict
    assert compared.holds == (verdict != "worse")


def test_the_noise_is_half_of_welchs_interval() -> None:
    # Source: by hand. Variances 1e6 and 4e6, three values each: error^2 5e6/3, degrees 2 * 25 / 17.
    half = welch_half_width((190_000.0, 191_000.0, 189_000.0), (180_000.0, 182_000.0, 178_000.0))
    assert half == pytest.approx(two_sided(50 / 17) * (5e6 / 3) ** 0.5)
    change = compare(_rates(*BEFORE), _rates(180_000.0, 182_000.0, 178_000.0)).changes[0]
    assert change.noise_share == pytest.approx(half / 190_000)
    assert change.change_share == pytest.approx(-10 / 190)


def test_more_loads_widen_the_interval_of_each() -> None:
    """Four chances to be unlucky are no reason to call one of them worse."""

    def noise(loads: int) -> float:
        runs = tuple(run.model_copy(update={"connections": n}) for n in range(1, loads + 1) for run in sound().runs)
        many = sound().model_copy(update={"runs": runs})
        return next(_changes(_loads(many), _loads(many), range(1, loads + 1))).noise_share

    assert noise(4) / noise(1) == pytest.approx(two_sided(4, 0.9875) / two_sided(4), rel=0.01)


OTHERS: dict[str, Callable[[], Measurement]] = {
    "other prompts": lambda: _asked(prompts_per_client=8_000),
    "one repeat": lambda: sound(repeats=1),
    "other load": lambda: every_run(sound(), lambda run: run.model_copy(update={"connections": 1})),
    "failures": lambda: every_run(sound(), lambda run: run.model_copy(update={"failed": 900})),
}


@each_row("name", OTHERS)
def test_what_was_sent_and_certified_must_be_alike(name: str) -> None:
    for compared in (compare(sound(), OTHERS[name]()), compare(OTHERS[name](), sound())):
        assert compared.obstacles
        assert (compared.changes, compared.holds) == ((), False)


def test_what_was_deployed_may_differ_and_is_named() -> None:
    asked = sound().asked
    flags = {**asked.shape.flags, "max_num_seqs": 512}
    del flags["max-num-seqs"]
    shape = asked.shape.model_copy(update={"engine_version": "0.19.0", "flags": flags, "env": {"A": "1"}})
    compared = compare(sound(), _asked(shape=shape))
    assert [one.partition(":")[0] for one in compared.differences] == [
        "--max-num-seqs",
        "A",
        "engine_version",
    ]
    assert compared.holds
