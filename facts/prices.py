"""Dated list prices by region and provisioning mode, from facts/data/prices.csv.

A price applies in its region only: `find` returns None for another, and `published` lists all regions. The file is read once, when
needed.
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
"""Modes with published prices. Items other than machines have an on-demand price only."""
EVERYWHERE: Final = "any"
"""Region of a price that is the same in all regions."""
FILE: Final = DATA_FOLDER / "prices.csv"
OLD_AFTER_DAYS: Final = 180
"""Assumed: half a year. On-demand prices and commitments did not change from 2025-12 to 2026-07; Spot changed up to twice a month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the file: prices of a machine type or item in a region from one source."""

    what: str
    """A machine type, or an item of prices.yaml."""
    region: str
    zones: str
    """Letters of the zones that have the machine; empty if unknown."""
    usd: Mapping[Mode, float]
    """USD an hour for a machine, or per unit of an item. Modes without a price are absent."""
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
        """Whether it is older than OLD_AFTER_DAYS. A price for all regions does not expire."""
        return self.region != EVERYWHERE and (today - dt.date.fromisoformat(self.date)).days > OLD_AFTER_DAYS


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the file."""
    _, *lines = (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return tuple(_row(line) for line in lines)


def _row(line: str) -> Row:
    # No field has a comma or a quote, so the csv module, which is slow to import, is not needed.
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
    """The latest price in that region; None if none was published."""
    found = [price for place in (region, EVERYWHERE) if (price := _newest(what).get((mode, place)))]
    return max(found, key=lambda price: price.date, default=None)


def zones(what: str, region: str) -> str:
    """Letters of the region's zones that have this machine, by the latest row that says; empty if unknown."""
    found = [row for row in rows() if row.what == what and row.region == region and row.zones]
    return max(found, key=lambda row: row.date).zones if found else ""


def published(what: str, mode: Mode | None = None) -> tuple[Price, ...]:
    """The latest price of every region and mode, cheapest first."""
    found = [price for price in _newest(what).values() if mode in (None, price.mode)]
    return tuple(sorted(found, key=lambda price: (price.usd, price.region, price.mode)))


def today() -> dt.date:
    """Today, for the age of prices; SOURCE_DATE_EPOCH overrides it for reproducible builds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return dt.datetime.fromtimestamp(int(epoch), dt.UTC).date() if epoch.isdecimal() else dt.datetime.now(dt.UTC).date()
