"""Numbers and sentences of this page; what it shares with a plan's page is in planner.report.wording."""

from __future__ import annotations

from benchmark.measurement import Estimate
from planner.report.wording import NBSP, number

NOTHING = "–"
"""Where there is no value."""


def interval(estimate: Estimate, noun: str = "") -> str:
    """The 95 % interval in words."""
    unit = f" {noun}" if noun else ""
    if estimate.low is None or estimate.high is None:
        return "one run: no interval" if estimate.repeats == 1 else "no interval"
    return f"95{NBSP}% interval {number(estimate.low)} to {number(estimate.high)}{unit}, {estimate.repeats} repeats"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent, with as many digits after the point."""
    return f"{100 * share:.{digits}f}{NBSP}%"


def seconds(value: float) -> str:
    """Seconds, with a digit below a hundred."""
    return f"{value:.1f}{NBSP}s" if value < 99.95 else f"{value:,.0f}{NBSP}s"


def milliseconds(value: float) -> str:
    """Milliseconds with four digits at most: 72.3 ms, 6.12 s."""
    if value < 99.95:
        return f"{value:.3g}{NBSP}ms"
    if value < 999.5:
        return f"{value:.0f}{NBSP}ms"
    return f"{value / 1_000:.2f}{NBSP}s" if value < 99_950 else f"{value / 1_000:,.0f}{NBSP}s"


def plural(count: int, noun: str, more: str | None = None) -> str:
    """1 client, 24 clients; `more` where the plural is irregular."""
    return f"{count:,} {noun if count == 1 else more or noun + 's'}"


def signed(share: float) -> str:
    """A change, with its sign and one place."""
    return f"{100 * share:+.1f} %".replace("-", "\N{MINUS SIGN}")


def rate(value: float | None) -> str:
    """A rate, whole from a thousand on; a dash where there is none."""
    return NOTHING if value is None else number(value)


def sentence(text: str) -> str:
    """The same with a capital at its beginning and a stop at its end."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?…" else text + "."
