"""Numbers as the page says them: as many digits as they deserve, units beside them, a range where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.deployment import Lengths, Workload
from planner.estimates import Estimate
from planner.goals import Batch, Budget, PlanQuestion, RequestsPerSecond, TokensPerSecond, Users

NBSP = "\N{NO-BREAK SPACE}"
"""Between a number and its unit: they stay on one line."""
_SECONDS_PER_MINUTE = 60
_SECONDS_PER_HOUR = 3_600


def number(value: float) -> str:
    """Three digits below a thousand, whole numbers with separators above."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def short(value: float) -> str:
    """A round number of an axis: 750, 200K, 1.2M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= factor * (1 - 1e-9):
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"


def usd(value: float) -> str:
    """Dollars: cents from ten cents up, three digits below."""
    if 0 < abs(value) < 0.095:
        return f"${value:.2g}"
    return f"${value:,.2f}" if abs(value) < 9_999.5 else f"${value:,.0f}"


def milliseconds(value: float) -> str:
    """Milliseconds below a second, seconds above."""
    if value < 999.5:
        return f"{value:.3g}{NBSP}ms"
    return f"{value / 1e3:.3g}{NBSP}s" if value < 999_500 else f"{value / 1e3:,.0f}{NBSP}s"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 99.5:
        return f"{seconds:.0f}{NBSP}s"
    if seconds < 2 * _SECONDS_PER_HOUR:
        minutes = seconds / _SECONDS_PER_MINUTE
        return f"{_one_digit(minutes) if minutes < 9.95 else f'{minutes:.0f}'}{NBSP}min"
    return f"{_one_digit(seconds / _SECONDS_PER_HOUR)}{NBSP}h"


def _one_digit(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def share(part: float) -> str:
    """A share in per cent."""
    return f"{100 * part:.0f}{NBSP}%"


def span(estimate: Estimate, in_words: Callable[[float], str] = number) -> str:
    """From the low to the high end; the value alone where they read the same."""
    low, high = in_words(estimate.low), in_words(estimate.high)
    return low if low == high else f"{low} to {high}"


def plural(count: int, noun: str) -> str:
    """1 node, 2 nodes."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


CAPACITIES: Mapping[str, str] = {
    "spot": "Spot",
    "cud-1y": "1-year commitment",
    "flex-start": "flex-start",
    "calendar": "calendar-mode reservation",
    "reservation": "reservation",
    "ladder": "reservation, then flex-start, then Spot",
}
"""How a capacity is called in a sentence, by its key."""

ROUTINGS: Mapping[str, str] = {"cluster-ip": "a plain Service", "inference-gateway": "the Inference Gateway"}


def goal(question: PlanQuestion) -> str:
    """The goal as a heading."""
    match question.goal:
        case TokensPerSecond(total_tokens_per_s=rate):
            return f"{number(rate)} total tokens a second"
        case Users(count=users):
            return f"{number(users)} users at once"
        case RequestsPerSecond(requests_per_s=rate):
            return f"{number(rate)} requests a second"
        case Budget(usd_per_hour=dollars):
            return f"what {usd(dollars)} an hour buy"
        case Batch(documents=documents, deadline_hours=hours):
            within = "" if hours is None else f" within {duration(hours * _SECONDS_PER_HOUR)}"
            return f"a batch of {documents:,} documents{within}"


def requests(workload: Workload) -> str:
    """What its requests look like."""
    return f"{_lengths(workload.input_tokens)} tokens in, {_lengths(workload.output_tokens)} out"


def _lengths(lengths: Lengths) -> str:
    if lengths.min == lengths.max:
        return f"{lengths.max:,}"
    return f"{lengths.min:,} to {lengths.max:,} (mean {lengths.mean:,.0f})"


def limits(question: PlanQuestion) -> Iterator[str]:
    """The limits that the question sets, in words."""
    for name, limit_ms in (("TTFT p99", question.limits.ttft_p99_ms), ("TPOT", question.limits.tpot_ms)):
        if limit_ms is not None:
            yield f"{name} within {milliseconds(limit_ms)}"
