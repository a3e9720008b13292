"""Prefill apart from decode: the arithmetic, against parts measured on one H200, and what holds for any times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import ledger
from facts.disaggregation import EngineTimes, apart, best, ratio, together, transfer_bytes
from facts.memory import CacheLayout
from tests.support.rows import each_row

MEASURED = ledger.section("disaggregation", "measured")
PAIR = ledger.section("disaggregation", "pair")
STEP_S = 0.0147
"""Fixed part of a decode step, with SEQUENCE_S from the two measured TPOT: 21 ms with 64 sequences, 40 ms with 256."""
SEQUENCE_S = 0.000099


def measured(workload: str, *, output_tokens: int, most_running: float = 300) -> EngineTimes:
    """An engine with the measured prefill rate and the measured decode steps."""
    prefill = MEASURED["prefill"][workload]
    prompts = 16_384 / prefill["prompt_tokens"]
    return EngineTimes(
        prompt_s=1 / prefill["requests_per_s"] - STEP_S / prompts,
        prompts_per_step=prompts,
        step_s=STEP_S,
        sequence_s=SEQUENCE_S,
        steps=output_tokens - 1,
        tokens_per_step=1,
        most_running=most_running,
    )


ARTICLE = measured("article", output_tokens=384)
LONG_PROMPTS = measured("5000-250", output_tokens=250)

TIMES = st.builds(
    EngineTimes,
    prompt_s=st.floats(0.001, 5),
    prompts_per_step=st.floats(0.1, 100),
    step_s=st.floats(0.001, 0.1),
    sequence_s=st.one_of(st.just(0.0), st.floats(1e-6, 1e-3)),
    steps=st.floats(1, 2_000),
    tokens_per_step=st.floats(1, 3),
    most_running=st.floats(1, 1_000),
)


def test_the_measured_parts_give_the_known_ratios() -> None:
    assert 0.8 < ratio(ARTICLE, 8, 8 * 128) < 1.3
    assert 5 < ratio(LONG_PROMPTS, 8, 8 * 16) < 9
    found = [best(times, 8, 8 * 64) for times in (ARTICLE, LONG_PROMPTS)]
    assert [(one.prefill, one.decode) for one in found if one] == [(4, 4), (7, 1)]


@each_row("times, name, in_flight", [(ARTICLE, "article-128", 128), (LONG_PROMPTS, "5000-250", 48)])
def test_one_and_one_of_the_measured_parts_is_the_measured_pair(times: EngineTimes, name: str, in_flight: int) -> None:
    runs = PAIR["runs"]
    split, whole = apart(times, 1, 1, in_flight), together(times, 2, in_flight)
    assert split.requests_per_s == pytest.approx(runs[f"{name}-apart"]["requests_per_s"], rel=0.1)
    assert 1_000 * split.tpot_s == pytest.approx(runs[f"{name}-apart"]["tpot_ms"][0], rel=0.1)
    assert whole.requests_per_s == pytest.approx(runs[f"{name}-together"]["requests_per_s"], rel=0.25)


def test_with_the_measured_parts_two_and_six_lose_a_third() -> None:
    for times, most in ((ARTICLE, 0.72), (LONG_PROMPTS, 0.35)):
        assert apart(times, 2, 6, 512).requests_per_s < most * together(times, 8, 512).requests_per_s
    assert apart(ARTICLE, 2, 6, 512).idle == "decode"
    assert apart(ARTICLE, 7, 1, 2_400).idle == "prefill"


def test_a_pair_gains_at_a_moderate_load_and_loses_where_caches_are_full() -> None:
    gains = [
        apart(ARTICLE, 1, 1, load).requests_per_s / together(ARTICLE, 2, load).requests_per_s for load in (128, 600)
    ]
    assert 1.15 < gains[0] < 1.25
    assert gains[1] < 0.95


def test_gaps_are_without_prompts_on_engines_that_decode_only() -> None:
    found = best(ARTICLE, 8, 512)
    assert found is not None
    assert found.longest_gap_s < 0.05 < 1 < together(ARTICLE, 8, 512).longest_gap_s


@each_row(
    "tokens, megabytes", [(int(name.removeprefix("tokens-")), mb) for name, mb in MEASURED["transfer_mb"].items()]
)
def test_bytes_of_a_transfer_are_those_measured(tokens: int, megabytes: float) -> None:
    layout = CacheLayout(speculative_tokens=0, prefix_caching=False)
    assert transfer_bytes(layout, tokens) / 1e6 == pytest.approx(megabytes, rel=0.002)


def test_states_of_drafts_are_not_sent() -> None:
    with_drafts, without = (
        transfer_bytes(CacheLayout(speculative_tokens=tokens, prefix_caching=False), 768) for tokens in (1, 0)
    )
    assert without < with_drafts < 1.1 * without


@given(times=TIMES, prefill=st.integers(1, 7), decode=st.integers(1, 7), in_flight=st.floats(1, 10_000))
def test_a_split_never_does_more_than_its_parts_can(
    times: EngineTimes, prefill: int, decode: int, in_flight: float
) -> None:
    found = apart(times, prefill, decode, in_flight)
    assert 0 < found.prefill_busy <= 1 + 1e-9
    assert 0 < found.decode_busy <= 1 + 1e-9
    assert found.running <= times.most_running * (1 + 1e-9)
    # Little's law: every request in flight waits, is read, or is answered.
    inside = decode * found.running + found.requests_per_s * (times.prefill_s + found.wait_s)
    assert inside == pytest.approx(in_flight, rel=1e-6) or found.wait_s == 0


@given(times=TIMES, engines=st.integers(2, 8), in_flight=st.floats(8, 5_000))
def test_the_best_split_is_none_too_far_from_the_ratio(times: EngineTimes, engines: int, in_flight: float) -> None:
    found = best(times, engines, in_flight)
    assert found is not None
    exact = ratio(times, engines, in_flight)
    prefill = engines * exact / (1 + exact)
    assert abs(found.prefill - min(max(prefill, 1), engines - 1)) <= 1


def test_one_engine_has_no_split() -> None:
    assert best(ARTICLE, 1, 64) is None


@each_row("changed", [{"prompt_s": 0.0}, {"steps": 0.0}, {"most_running": -1.0}])
def test_times_are_positive(changed: dict[str, float]) -> None:
    values = {name: getattr(ARTICLE, name) for name in ARTICLE.__dataclass_fields__}
    with pytest.raises(ValueError, match=f"{next(iter(changed))} must be above 0"):
        EngineTimes(**{**values, **changed})


@each_row("prefill, decode, in_flight, named", [(0, 8, 64, "prefill"), (8, 0, 64, "decode"), (4, 4, 0, "in_flight")])
def test_a_split_has_engines_of_both_kinds_and_a_load(prefill: int, decode: int, in_flight: float, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} must be above 0"):
        apart(ARTICLE, prefill, decode, in_flight)
