from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from facts.texts import plural
from fleet.report.words import (
    format_change,
    format_duration,
    format_elapsed,
    format_list,
    format_milliseconds,
    format_number,
    format_percent,
    format_short,
    format_usd,
)
from tests.support.rows import each_row


@each_row(
    ("format_", "words"),
    [
        (
            format_number,
            {
                0: "0",
                0.1234: "0.123",
                62.58: "62.6",
                999.4: "999",
                999.6: "1,000",
                1e6: "1,000,000",
                19_440_000: "19.4M",
            },
        ),
        (format_usd, {0: "$0.00", 0.0012: "$0.0012", 0.117: "$0.12", 424.03: "$424.03", 309_543.2: "$309,543.20"}),
        (
            format_duration,
            {
                32: "32 s",
                99.6: "1.7 min",
                300: "5 min",
                330: "5.5 min",
                2_040: "34 min",
                28_800: "8 h",
                9_000: "2.5 h",
                360_000: "4.2 days",
            },
        ),
        (format_elapsed, {0.41: "0.4 s", 9.96: "10 s", 41.2: "41 s", 59.7: "1 min 00 s", 372: "6 min 12 s"}),
        # Latencies change to seconds at one.
        (
            format_milliseconds,
            {45.47: "45.5 ms", 999.4: "999 ms", 999.6: "1 s", 6_491: "6.49 s", 1_234_567: "1,235 s"},
        ),
        (format_short, {0: "0", 750: "750", 200_000: "200K", 1_500_000: "1.5M", 2e9: "2G"}),
    ],
)
def test_numbers_have_the_digits_and_the_unit_that_suit_them(
    format_: Callable[[float], str], words: dict[float, str]
) -> None:
    assert {value: format_(value) for value in words} == words


@given(st.floats(1e-9, 1e9))
def test_an_amount_above_nothing_never_reads_as_nothing(value: float) -> None:
    assert any(digit in "123456789" for digit in format_usd(value))


def test_shares_and_changes_have_their_unit_and_sign() -> None:
    assert [format_percent(0.1234), format_percent(0.5, 0)] == ["12.3 %", "50 %"]
    assert [format_change(0.05), format_change(-0.05)] == ["+5.0 %", "\N{MINUS SIGN}5.0 %"]


def test_nouns_follow_their_number() -> None:
    counts = [plural(1, "node"), plural(1_200, "node"), plural(2, "query", "queries")]
    assert counts == ["1 node", "1,200 nodes", "2 queries"]
    assert [format_list(["1"]), format_list(["1", "2", "4"])] == ["1", "1, 2 and 4"]
