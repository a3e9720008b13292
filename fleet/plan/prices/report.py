"""Known prices of a machine, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date

from facts import ledger, prices
from facts.prices import Mode, Price
from fleet.report.terminal import Page, Paper
from fleet.report.words import format_usd, plural


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


class UnknownError(ValueError):
    """A machine or region without known prices; the message lists the known ones."""


def known(machine: str, region: str | None, mode: Mode | None, today: date) -> Known:
    """Known prices of a machine, optionally filtered by region and provisioning mode. Raises UnknownError."""
    rows = prices.rows()
    items = tuple(ledger.section("prices", "items"))
    machines = sorted({row.what for row in rows} - set(items))
    if machine not in machines:
        raise UnknownError(f"--machine {machine}: no known prices; allowed: {', '.join(machines)}")
    regions = sorted({row.region for row in rows if row.what == machine})
    if region is not None and region not in regions:
        raise UnknownError(f"--region {region}: no known prices or zones of {machine}; allowed: {', '.join(regions)}")
    found = {item: prices.find(item, region) for item in items} if region is not None else {}
    return Known(
        machine=machine,
        prices=tuple(price for price in prices.published(machine, mode) if region in (None, price.region)),
        items=tuple(price for price in found.values() if price is not None),
        unknown_items=tuple(item for item, price in found.items() if price is None),
        today=today,
    )


def print_known(paper: Paper, found: Known) -> None:
    """Print one line per price, cheapest first."""
    page = Page(paper)
    page.heading(f"{found.machine}: USD an hour, list prices", "cheapest first")
    if not found.prices:
        page.prose("No published price: capacity by contract only, or part of the price is unknown.")
    else:
        columns = (
            ("USD", ">9"),
            ("", "2"),
            ("region", "<25"),
            ("mode", "<12"),
            ("zones", "<9"),
            ("price of", "<17"),
            ("source", ""),
        )
        page.table(columns, [_row(price, found.today) for price in found.prices], indent=0)
    if found.items:
        page.title("Around the servers")
        for price in found.items:
            unit = ledger.entry("prices", "items", price.what)["unit"]
            page.prose(
                f"{price.what}: {format_usd(price.usd)} per {unit} ({_dated(price, found.today)}, {price.source})",
                mark="· ",
            )
    if found.unknown_items:
        page.prose(f"not published for the region: {', '.join(found.unknown_items)}", mark="· ", style="yellow")
    page.title("How to read this")
    page.prose("A price does not mean capacity. Zones are those with the machine in July 2026; empty if unknown.")
    page.prose("Sources: docs/provenance.md. `fleet prices --update` reads a downloaded SKU list.")
    old = sum(price.is_old(found.today) for price in (*found.prices, *found.items))
    if old:
        page.prose(
            f"{plural(old, 'price')} older than {prices.OLD_AFTER_DAYS} days: Spot moves up to twice a month.",
            style="yellow",
        )
    page.print()


def known_json(found: Known) -> str:
    """The same as JSON."""

    def listed(some: Sequence[Price]) -> list[dict[str, object]]:
        return [asdict(price) | {"old": price.is_old(found.today)} for price in some]

    document = {
        "machine": found.machine,
        "prices": listed(found.prices),
        "items": listed(found.items),
        "unknownItems": list(found.unknown_items),
    }
    return json.dumps(document, indent=2) + "\n"


def _row(price: Price, today: date) -> tuple[str, ...]:
    return (
        f"{price.usd:,.2f}",
        "",
        price.region,
        price.mode,
        " ".join(price.zones),
        _dated(price, today),
        price.source,
    )


def _dated(price: Price, today: date) -> str:
    return f"{price.date}, old" if price.is_old(today) else price.date
