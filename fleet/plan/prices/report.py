"""Known prices of a machine, as an outline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date

from facts import ledger, prices
from facts.machines import machine_hint
from facts.prices import Mode, Price
from facts.texts import plural
from facts.user_error import UserError
from fleet.report.outline import Items, Outline, Prose, Section, some
from fleet.report.table import Cell, Column, Table, numbers, texts
from fleet.report.words import format_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Prices of one machine, and of other items in one region."""

    machine: str
    prices: tuple[Price, ...]
    """Cheapest first."""
    items: tuple[Price, ...]
    """Items of the region; empty without a region."""
    unknown_items: tuple[str, ...]
    today: date


def known(machine: str, region: str | None, mode: Mode | None, today: date) -> Known:
    """Known prices of a machine, optionally filtered by region and provisioning mode. Raises UserError."""
    rows = prices.rows()
    items = tuple(ledger.section("prices", "items"))
    machines = sorted({row.what for row in rows} - set(items))
    if machine not in machines:
        raise UserError(f"--machine {machine}: no known prices; {machine_hint(machine, machines)}")
    regions = sorted({row.region for row in rows if row.what == machine})
    if region is not None and region not in regions:
        raise UserError(f"--region {region}: no known prices or zones of {machine}; allowed: {', '.join(regions)}")
    found = {item: prices.find(item, region) for item in items} if region is not None else {}
    return Known(
        machine=machine,
        prices=tuple(price for price in prices.published(machine, mode) if region in (None, price.region)),
        items=tuple(price for price in found.values() if price is not None),
        unknown_items=tuple(item for item, price in found.items() if price is None),
        today=today,
    )


def outline(found: Known) -> Outline:
    """One line per price, cheapest first."""
    table = Table(
        id="prices",
        caption=f"List prices of {found.machine}",
        columns=(
            *numbers("USD"),
            *texts("region", "mode", "zones", "price of"),
            Column(title="source"),
        ),
        rows=tuple(tuple(map(Cell, _row(price, found.today))) for price in found.prices),
    )
    none = Prose("No published price: capacity by contract only, or part of the price is unknown.")
    around = [
        f"{price.what}: {format_usd(price.usd)} per {ledger.entry('prices', 'items', price.what)['unit']} "
        f"({_dated(price, found.today)}, {price.source})"
        for price in found.items
    ]
    unknown = [f"not published for the region: {', '.join(found.unknown_items)}"] if found.unknown_items else []
    old = sum(price.is_old(found.today) for price in (*found.prices, *found.items))
    moves = f"{plural(old, 'price')} older than {prices.OLD_AFTER_DAYS} days: Spot moves up to twice a month."
    return Outline(
        title=f"{found.machine}: USD an hour, list prices",
        kind="cheapest first",
        body=(
            table if found.prices else none,
            Section(title="Around the servers", body=some(Items((*around, *unknown)) if around or unknown else None)),
            Section(
                title="How to read this",
                body=(
                    Prose(
                        "A price does not mean capacity. Zones are those with the machine in July 2026; empty if unknown."
                    ),
                    Prose("Sources: docs/provenance.md. A newer price is a row of facts/data/prices.csv."),
                    *some(Prose(moves, "warn") if old else None),
                ),
            ),
        ),
        data={
            "machine": found.machine,
            "prices": _listed(found.prices, found.today),
            "items": _listed(found.items, found.today),
            "unknownItems": list(found.unknown_items),
        },
    )


def _listed(some_prices: Sequence[Price], today: date) -> list[dict[str, object]]:
    return [asdict(price) | {"old": price.is_old(today)} for price in some_prices]


def _row(price: Price, today: date) -> tuple[str, ...]:
    return (
        f"{price.usd:,.2f}",
        price.region,
        price.mode,
        " ".join(price.zones),
        _dated(price, today),
        price.source,
    )


def _dated(price: Price, today: date) -> str:
    return f"{price.date}, old" if price.is_old(today) else price.date
