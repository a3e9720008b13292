from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.deployment import Lengths, Workload
from planner.estimates import Estimate
from planner.goals import CAPACITIES, Batch, Budget, Limits, PlanGoal, RequestsPerSecond, TokensPerSecond, Users
from planner.report import wording
from planner.words import quota_in_words
from tests.planner.report.pages import question


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.1234, "0.123"), (62.58, "62.6"), (999.4, "999"), (999.6, "1,000"), (1e6, "1,000,000")],
)
def test_numbers_have_the_digits_they_deserve(value: float, words: str) -> None:
    assert wording.number(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "$0.00"), (0.0012, "$0.0012"), (0.117, "$0.12"), (424.03, "$424.03"), (309_543.2, "$309,543")],
)
def test_dollars_never_round_to_nothing(value: float, words: str) -> None:
    assert wording.usd(value) == words


@given(st.floats(1e-9, 1e9))
def test_an_amount_above_nothing_never_reads_as_nothing(value: float) -> None:
    assert any(digit in "123456789" for digit in wording.usd(value))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (32, "32 s"),
        (99.6, "1.7 min"),
        (300, "5 min"),
        (330, "5.5 min"),
        (2_040, "34 min"),
        (28_800, "8 h"),
        (9_000, "2.5 h"),
    ],
)
def test_durations_read_in_the_unit_that_suits_them(seconds: float, words: str) -> None:
    assert plain(wording.duration(seconds)) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(45.47, "45.5 ms"), (999.4, "999 ms"), (999.6, "1 s"), (6_491, "6.49 s"), (1_234_567, "1,235 s")],
)
def test_latencies_change_to_seconds_at_one(value: float, words: str) -> None:
    assert plain(wording.milliseconds(value)) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (750, "750"), (200_000, "200K"), (1_500_000, "1.5M"), (2e9, "2G")]
)
def test_axes_are_labelled_shortly(value: float, words: str) -> None:
    assert wording.short(value) == words


def test_a_span_that_reads_the_same_at_both_ends_is_one_number() -> None:
    assert wording.span(Estimate(value=5, low=5, high=5, basis="fitted")) == "5"
    assert wording.span(Estimate(value=5, low=4, high=6, basis="fitted")) == "4 to 6"


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (TokensPerSecond(total_tokens_per_s=1e6), "1,000,000 total tokens a second"),
        (Users(count=16_000), "16,000 users at once"),
        (RequestsPerSecond(requests_per_s=640), "640 requests a second"),
        (Budget(usd_per_hour=500), "what $500.00 an hour buy"),
        (Batch(documents=50_000, deadline_hours=8), "a batch of 50,000 documents within 8 h"),
        (Batch(documents=50_000), "a batch of 50,000 documents"),
    ],
)
def test_goals_are_headings(goal: PlanGoal, words: str) -> None:
    assert plain(wording.goal(question(goal=goal))) == words


def test_limits_and_requests_are_said() -> None:
    asked = question(limits=Limits(ttft_p99_ms=20_000, tpot_ms=60))
    assert [plain(one) for one in wording.limits(asked)] == ["TTFT p99 within 20 s", "TPOT within 60 ms"]
    assert list(wording.limits(question())) == []
    assert wording.requests(asked.workload) == "512 to 1,024 (mean 768) tokens in, 256 to 512 (mean 384) out"
    exact = Workload(input_tokens=Lengths.exactly(3_000), output_tokens=Lengths.exactly(500))
    assert wording.requests(exact) == "3,000 tokens in, 500 out"


def test_every_way_to_buy_has_a_name_and_a_quota() -> None:
    assert set(wording.CAPACITIES) == set(CAPACITIES)
    assert quota_in_words("spot", 104) == "104 B200 GPUs, preemptible"
    assert "no quota" in quota_in_words("calendar", 8)
    assert all(quota_in_words(one, 8) for one in CAPACITIES)
