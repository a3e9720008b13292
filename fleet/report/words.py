"""Numbers, amounts and durations as text: as many digits as they deserve, and the unit beside the number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

NOTHING: Final = "–"
"""In place of a value that is missing."""
_SECONDS_PER_MINUTE: Final = 60
_SECONDS_PER_HOUR: Final = 3_600


def format_list(names: Iterable[str]) -> str:
    """`1, 2 and 4`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def format_usd(amount: float) -> str:
    """Dollars and cents; two significant digits below ten cents, where cents would hide the difference."""
    return f"${amount:,.2f}" if amount >= 0.0995 or amount == 0 else f"${float(f'{amount:.2g}'):.15f}".rstrip("0")


def format_number(value: float) -> str:
    """As many digits as it deserves: 0.52, 83.1, 1,104, 19.4M."""
    if abs(value) >= 1e7:
        return f"{value / 1e6:,.1f}M"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def format_short(value: float) -> str:
    """A round number of an axis: 750, 200K, 1.2M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= factor * (1 - 1e-9):
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"


CLASS_RESERVATION = (
    "The reservation of this ComputeClass is paid whether its nodes run or not, and capacity.reservation.nodes does not say how many it "
    "holds; what is saved is what lies beyond it."
)
"""Said wherever a stack is priced at fewer nodes than its most."""


def format_percent(share: float, digits: int = 1) -> str:
    """A share in per cent, with that many digits after the point."""
    return f"{100 * share:,.{digits}f} %"


def format_change(share: float) -> str:
    """A relative change in per cent, with its sign and one digit."""
    return f"{100 * share:+,.1f} %".replace("-", "\N{MINUS SIGN}")


def format_milliseconds(value: float) -> str:
    """Milliseconds below a second, seconds above, three significant digits."""
    if value < 999.5:
        return f"{value:.3g} ms"
    return f"{value / 1e3:.3g} s" if value < 999_500 else f"{value / 1e3:,.0f} s"


def format_duration(seconds: float) -> str:
    """An estimate in seconds, minutes, hours or days, whichever reads best."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 2 * _SECONDS_PER_HOUR:
        minutes = seconds / _SECONDS_PER_MINUTE
        return f"{_one_digit(minutes) if minutes < 9.95 else f'{minutes:.0f}'} min"
    if seconds < 72 * _SECONDS_PER_HOUR:
        return f"{_one_digit(seconds / _SECONDS_PER_HOUR)} h"
    return f"{_one_digit(seconds / _SECONDS_PER_HOUR / 24)} days"


def format_elapsed(seconds: float) -> str:
    """Measured wall time, to the second: `0.4 s`, `41 s`, `6 min 12 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _SECONDS_PER_MINUTE)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def format_moment(epoch_seconds: float) -> str:
    """A time of day in UTC, to the minute."""
    return f"{datetime.fromtimestamp(epoch_seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _one_digit(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def sentence(text: str) -> str:
    """The same with a capital at its beginning and a full stop at its end."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?…" else text + "."
