"""Dated list prices by region and way to buy, from facts/data/prices.csv.

A price holds in its own region. None is ever taken from another one: `find` answers None, and `published` tells what there
is elsewhere. The file is read when the first price is asked for, and once.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

from facts.ledger import DATA_FOLDER

Mode = Literal["on-demand", "spot", "flex-start", "calendar", "cud-1y", "cud-3y"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""The ways to buy that Google publishes prices for. Items that are no machine have a price on demand alone."""
EVERYWHERE: Final = "any"
"""The region of a price that is the same in all of them."""
FILE: Final = DATA_FOLDER / "prices.csv"
COLUMNS: Final = ("what", "region", "zones", *MODES, "date", "source")
OLD_AFTER_DAYS: Final = 180
"""Assumed: half a year. On-demand prices and commitments stood still from 2025-12 to 2026-07; Spot moved up to twice a month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the file: what one source says of one machine type or item in one region."""

    what: str
    """A machine type, or an item of prices.yaml."""
    region: str
    zones: str
    """Letters of the zones that have the machine; empty where no source says."""
    usd: Mapping[Mode, float]
    """USD an hour of a machine, or per unit of the item. Ways without a price are absent."""
    date: str
    """ISO date of the source."""
    source: str
    """Id in sources.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One list price."""

    what: str
    region: str
    mode: Mode
    usd: float
    date: str
    source: str
    zones: str = ""

    def is_old(self, today: dt.date) -> bool:
        """Whether nobody has looked at it for OLD_AFTER_DAYS. A price of all regions stands from its date until Google ends it."""
        return self.region != EVERYWHERE and (today - dt.date.fromisoformat(self.date)).days > OLD_AFTER_DAYS


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the file, as it stands there."""
    _, *lines = (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return tuple(_row(line) for line in lines)


def _row(line: str) -> Row:
    # No field has a comma or a quote, so that csv, which costs more than the file, is not needed.
    what, region, zones, *usd, date, source = line.split(",")
    amounts = {mode: float(amount) for mode, amount in zip(MODES, usd, strict=True) if amount}
    return Row(what=what, region=region, zones=zones, usd=amounts, date=date, source=source)


@cache
def _newest(what: str) -> Mapping[tuple[Mode, str], Price]:
    found: dict[tuple[Mode, str], Price] = {}
    for row in sorted((row for row in rows() if row.what == what), key=lambda row: row.date):
        for mode, usd in row.usd.items():
            found[mode, row.region] = Price(
                what=what, region=row.region, mode=mode, usd=usd, date=row.date, source=row.source, zones=row.zones
            )
    return found


def find(what: str, region: str, mode: Mode = "on-demand") -> Price | None:
    """The newest price that holds in that region; None where none was published for it."""
    found = [price for place in (region, EVERYWHERE) if (price := _newest(what).get((mode, place)))]
    return max(found, key=lambda price: price.date, default=None)


def published(what: str, mode: Mode | None = None) -> tuple[Price, ...]:
    """The newest price of every region and way to buy, cheapest first."""
    found = [price for price in _newest(what).values() if mode in (None, price.mode)]
    return tuple(sorted(found, key=lambda price: (price.usd, price.region, price.mode)))


def today() -> dt.date:
    """The day that the age of prices is counted from: SOURCE_DATE_EPOCH where it is set, as for reproducible builds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return dt.datetime.fromtimestamp(int(epoch), dt.UTC).date() if epoch.isdecimal() else dt.datetime.now(dt.UTC).date()
