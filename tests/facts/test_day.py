"""The load's shape is that of the traces it was derived from."""

from __future__ import annotations

from statistics import correlation, fmean

import pytest

from facts.day import DAYS, FILE, SHAPES, SLOT_SECONDS, Shape, load_of_day, profile

A_DAY = 24 * 6


@pytest.mark.parametrize(
    # Sums of the traces themselves: ServeGen at commit f891d11. Of `daily` the gaps count as filled.
    ("shape", "peak_over_mean", "days"),
    [("bursty", 2.977, (1.20, 2.72)), ("daily", 3.235, (1.32, 2.63))],
)
def test_peaks_over_means_are_the_traces(shape: Shape, peak_over_mean: float, days: tuple[float, float]) -> None:
    shares = profile(shape)
    assert len(shares) == DAYS * A_DAY
    assert max(shares) == 1
    assert max(shares) / fmean(shares) == pytest.approx(peak_over_mean, rel=0.005)
    by_day = [max(day) / fmean(day) for at in range(DAYS) if (day := shares[at * A_DAY : (at + 1) * A_DAY])]
    assert (min(by_day), max(by_day)) == pytest.approx(days, rel=0.01)


def test_growth_within_twenty_minutes_is_the_traces() -> None:
    shares = profile("bursty")
    growth = sorted(later / now for now, later in zip(shares, shares[2:], strict=False))
    assert growth[int(0.95 * len(growth))] == pytest.approx(1.41, rel=0.01)
    assert growth[int(0.99 * len(growth))] == pytest.approx(1.74, rel=0.01)


def test_only_one_shape_repeats_from_day_to_day() -> None:
    likeness = {shape: correlation(profile(shape)[:-A_DAY], profile(shape)[A_DAY:]) for shape in SHAPES}
    assert likeness["bursty"] < 0.2
    assert likeness["daily"] > 0.5


def test_the_load_is_scaled_to_its_peak_and_keeps_the_mean() -> None:
    load = load_of_day("bursty", 600.0, first_day=0, days=DAYS)
    assert 590 < max(load.requests_per_s) <= 600
    assert fmean(load.requests_per_s) == pytest.approx(600 * fmean(profile("bursty")), rel=0.002)
    assert load.hours == DAYS * 24
    coarse = load_of_day("bursty", 600.0, first_day=2, days=1, step_seconds=SLOT_SECONDS)
    assert list(coarse.requests_per_s) == pytest.approx([600 * share for share in profile("bursty")[288:432]])


def test_days_beyond_the_trace_are_refused() -> None:
    with pytest.raises(ValueError, match="days 0 to 13"):
        load_of_day("daily", 1.0, first_day=10, days=5)


def test_the_file_is_small_and_carries_its_notice() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert FILE.stat().st_size <= 20 * 1024
    assert "f891d1189eb32b3868dfc443800c4150548c282a" in text
    assert "Apache License 2.0" in text
