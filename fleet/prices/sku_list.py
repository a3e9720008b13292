"""From a downloaded list of SKUs to prices of machines and items.

The list is what the Cloud Billing Catalog API answers to `services.skus.list`, as JSON, page by page. Shape and units:
cloud.google.com/billing/v1/how-tos/catalog-api and the reference of google.cloud.billing.v1. Descriptions of SKUs:
Cyclenerd/google-cloud-pricing-cost-calculator, build/mapping.csv of 2026-08-20; those of A4 from public tests of other tools.
Google sells a machine as vCPU, memory, GPUs and local SSD apart, so its price is their sum, and is only given where all of
them are in the list. Nothing here reaches the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

from facts import ledger
from facts.cost import HOURS_PER_MONTH
from facts.prices import EVERYWHERE, MODES, Mode, Row
from settings import strict_json

SOURCE: Final = "downloaded-sku-list"
MOST_BYTES: Final = 64 * 2**20
"""Of one page. Measured: 5,000 SKUs, which a page holds at most, are about 8 MiB."""

_LOCAL_SSD: Final = "SSD backed Local Storage"
_COMMITMENTS: Final[Mapping[str, Mode]] = {"1": "cud-1y", "3": "cud-3y"}
_COMMITTED: Final = re.compile(r"Commitment v1: (?P<stem>.+?) in .+ for (?P<years>[13]) Years?", re.IGNORECASE)
_MODES: Final[tuple[tuple[re.Pattern[str], Mode], ...]] = (
    (re.compile(r"^Spot Preemptible | attached to Spot Preemptible VMs"), "spot"),
    (re.compile(r"^DWS Calendar Mode | attached to DWS Calendar Mode VMs"), "calendar"),
    (re.compile(r"^DWS Defined Duration | attached to DWS Defined Duration VMs"), "flex-start"),
)
"""Of SKUs whose usage type says "OnDemand" all the same, as those of B200 do."""
_REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")
"""Multi-regions ("us", "europe") are no place of a stack."""
_PLACE: Final = re.compile(r"(?: running)? in .+$", re.IGNORECASE)

_NOT_ON_DEMAND: Final = re.compile(r"a4-|a3-highgpu-[124]g")
"""Machines with an SKU on demand that is not sold. Source: GPU machine types, Compute Engine documentation."""
_NOT_COMMITTED: Final = re.compile(r"a2-ultragpu")
"""No public commitment, though its parts have SKUs. Source: Cyclenerd, build/pricing.pl."""
_SHAPES: Final[tuple[tuple[str, str, float, float, str, float], ...]] = (
    # Machine type with its number; family of vCPU and memory; GiB for each vCPU; vCPUs for each GPU; GPU; GB of SSD for each GPU.
    (r"g2-standard-(\d+)", "G2", 4, 0, "Nvidia L4 GPU", 0),
    (r"g4-standard-(\d+)", "G4", 3.75, 48, "RTX 6000 96GB", 0),
    (r"a2-highgpu-(\d+)g", "A2", 85 / 12, 12, "Nvidia Tesla A100 GPU", 0),
    (r"a2-ultragpu-(\d+)g", "A2", 170 / 12, 12, "Nvidia Tesla A100 80GB GPU", 375),
    (r"a3-highgpu-(\d+)g", "A3", 9, 26, "Nvidia H100 80GB GPU", 750),
    (r"a3-megagpu-(\d+)g", "A3Plus", 9, 26, "Nvidia H100 80GB Mega GPU", 750),
    (r"a3-ultragpu-(\d+)g", "A3Ultra", 2952 / 224, 28, "H200 141GB GPU", 1500),
    (r"c4-standard-(\d+)", "C4", 3.75, 0, "", 0),
)
_L4: Final = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
"""GPUs by vCPUs of a g2-standard machine, where the number of both is no ratio."""
_ITEMS: Final[Mapping[str, str]] = {
    "boot-disk": "Hyperdisk Balanced Capacity",
    "boot-disk-pd": "Balanced PD Capacity",
    "local-ssd": _LOCAL_SSD,
    "hyperdisk-ml-capacity": "Hyperdisk ML Capacity",
    "hyperdisk-ml-throughput": "Hyperdisk ML Throughput",
    "disk-image": "Storage Image",
    "nat-gateway": "Networking Cloud Nat Gateway Uptime",
    "nat-data": "Networking Cloud Nat Data Processing",
}


class SkuListError(ValueError):
    """A file that is no list of SKUs, or none that prices follow from. The message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The price of one SKU."""

    usd: float
    unit: str
    """As the catalogue writes it: "h", "GiBy.h", "GiBy.mo", "GiBy"."""
    date: str

    @property
    def usd_per_hour(self) -> float:
        """The price of an hour, of a rate by the hour or the month."""
        return self.usd / HOURS_PER_MONTH if self.unit.endswith("mo") else self.usd


Rates = Mapping[tuple[str, Mode, str], Rate]
"""By the SKU's stem, the way to buy and the region."""


def read(path: Path) -> Rates:
    """The rates in a file or in all JSON files of a folder. Raises SkuListError."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise SkuListError(f"{path}: the folder has no .json file; save the pages of the SKU list there")
    skus: list[Mapping[str, Any]] = []
    open_ends: dict[str, int] = {}
    for file in files:
        page = _page(file)
        found = page["skus"]
        skus += found
        for service in {_service(sku) for sku in found}:
            # The last page alone has no token: of n pages, n - 1 name a next one.
            open_ends[service] = open_ends.get(service, 1) - (0 if page.get("nextPageToken") else 1)
    missing = sorted(service for service, ends in open_ends.items() if ends > 0)
    if missing:
        raise SkuListError(f"{path}: the last page of {', '.join(missing)} is missing; follow nextPageToken to its end")
    return rates(skus)


def rates(skus: Iterable[Mapping[str, Any]]) -> Rates:
    """Rates of the SKUs whose description says what they are. Raises SkuListError where one is not in dollars."""
    found: dict[tuple[str, Mode, str], Rate] = {}
    for sku in skus:
        named = _named(str(sku.get("description", "")))
        rate = _rate(sku) if named is not None else None
        if named is not None and rate is not None:
            regions = sku.get("serviceRegions", ["global"])
            for region in map(str, regions) if isinstance(regions, list) else ():
                if region == "global" or _REGION.fullmatch(region):
                    found[(*named, EVERYWHERE if region == "global" else region)] = rate
    return found


def rewritten(old: Sequence[Row], found: Rates) -> tuple[Row, ...]:
    """The rows with what the rates tell of the machines and items in them; what they do not tell stays as it is.

    Raises SkuListError where they tell nothing.
    """
    zones = {(row.what, row.region): row.zones for row in old}
    new = [
        Row(what=what, region=region, zones=zones.get((what, region), ""), usd=usd, date=day, source=SOURCE)
        for what in dict.fromkeys([*(row.what for row in old), *_ITEMS])
        for region, usd, day in _priced(what, found)
    ]
    if not new:
        raise SkuListError(
            "no SKU in it belongs to a machine or an item of the price list; is it Compute Engine's, 6F81-5844-456A?"
        )
    told = {(row.what, row.region): row for row in new}
    kept = [row for row in old if not _told(row, told.get((row.what, row.region)))]
    return tuple(sorted([*kept, *new], key=_order))


def file_text(rows: Iterable[Row], heading: str, columns: Sequence[str]) -> str:
    """The file that facts/prices.py reads: its comments, the columns, and a line for each row."""
    lines = [
        ",".join(
            (
                row.what,
                row.region,
                row.zones,
                *(f"{row.usd[mode]:.9f}".rstrip("0").rstrip(".") if mode in row.usd else "" for mode in MODES),
                row.date,
                row.source,
            )
        )
        for row in rows
    ]
    return heading + "\n".join([",".join(columns), *lines]) + "\n"


def _page(file: Path) -> Mapping[str, Any]:
    if file.stat().st_size > MOST_BYTES:
        raise SkuListError(f"{file}: more than {MOST_BYTES // 2**20} MiB; a page of the SKU list has about 8")
    try:
        page = strict_json.loads(file.read_bytes())
    except ValueError:
        raise SkuListError(f"{file}: not JSON; save the answer of the Cloud Billing Catalog API as it comes") from None
    if isinstance(page, dict) and isinstance(page.get("error"), dict):
        raise SkuListError(f"{file}: an error of the API, not its answer (code {page['error'].get('code')})")
    skus = page.get("skus") if isinstance(page, dict) else None
    if not isinstance(skus, list) or not all(isinstance(sku, dict) for sku in skus):
        raise SkuListError(
            f'{file}: no list of SKUs; it has to be an object with "skus", as services.skus.list answers'
        )
    return cast(Mapping[str, Any], page)


def _service(sku: Mapping[str, Any]) -> str:
    return "/".join(str(sku.get("name", "")).split("/")[:2]) or "services/unnamed"


def _named(description: str) -> tuple[str, Mode] | None:
    """Stem and way to buy of a SKU; None of one that is neither."""
    if description.startswith("Reserved "):
        return None
    if committed := _COMMITTED.fullmatch(description):
        stem, mode = committed["stem"], _COMMITMENTS[committed["years"]]
    elif description.startswith("Commitment"):
        return None
    else:
        stem, mode = _PLACE.sub("", description), "on-demand"
        for pattern, way in _MODES:
            if pattern.search(stem):
                stem, mode = pattern.sub("", stem), way
    stem = stem.replace(" Instance Core", " Cpu").replace(" Instance Ram", " Ram")
    return _LOCAL_SSD if stem == "Local SSD" else stem, mode


def _rate(sku: Mapping[str, Any]) -> Rate | None:
    """The first rate above zero: what comes before it is a free allowance."""
    try:
        info = sku["pricingInfo"][-1]
        expression = info["pricingExpression"]
        for tier in expression["tieredRates"]:
            price = tier["unitPrice"]
            if price.get("currencyCode", "USD") != "USD":
                raise SkuListError(f"prices are in {price['currencyCode']}; ask for them in USD (currencyCode)")
            usd = int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9
            if usd > 0:
                day = date.fromisoformat(str(info["effectiveTime"])[:10])
                return Rate(usd=usd, unit=str(expression["usageUnit"]), date=day.isoformat())
    except SkuListError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError):
        raise SkuListError(f"SKU {sku.get('skuId', '?')} has no readable pricingInfo") from None
    return None


def _priced(what: str, found: Rates) -> Iterator[tuple[str, dict[Mode, float], str]]:
    """Prices and their date, region by region."""
    item = _ITEMS.get(what)
    parts = {item: 1.0} if item else _parts(what)
    regions = sorted({region for stem, _, region in found if stem in parts})
    for region in regions:
        usd: dict[Mode, float] = {}
        dates = []
        for mode in MODES if item is None else MODES[:1]:
            rates_of = [(found.get((stem, mode, region)), quantity) for stem, quantity in parts.items()]
            known = [(rate, quantity) for rate, quantity in rates_of if rate is not None]
            if len(known) < len(parts) or not _is_sold(what, mode):
                continue
            amount = sum(quantity * _per_unit(rate, what if item else "") for rate, quantity in known)
            usd[mode] = round(amount, 9)  # nanodollars, as the catalogue counts
            dates += [rate.date for rate, _ in known]
        if usd:
            yield region, usd, min(dates)


def _per_unit(rate: Rate, item: str) -> float:
    """The rate per hour of a machine, per unit of an item."""
    unit = str(ledger.entry("prices", "items", item)["unit"]) if item else "hour"
    if unit.endswith("-month"):
        return rate.usd_per_hour * HOURS_PER_MONTH
    return rate.usd_per_hour if unit.endswith("hour") else rate.usd


def _is_sold(what: str, mode: Mode) -> bool:
    if mode == "on-demand":
        return not _NOT_ON_DEMAND.match(what)
    return not (mode in _COMMITMENTS.values() and _NOT_COMMITTED.match(what))


def _parts(machine: str) -> dict[str, float]:
    """SKUs of a machine with their quantities; none of a machine whose shape is not known here."""
    if machine.startswith("a4-highgpu-8g"):
        return {"A4 Nvidia B200 (1 gpu slice)": 8}
    for pattern, family, gib, vcpus_per_gpu, gpu, ssd in _SHAPES:
        if found := re.fullmatch(pattern, machine):
            number = int(found[1])
            by_gpu = machine.endswith("g")
            vcpus = number * vcpus_per_gpu if by_gpu else number
            gpus = number if by_gpu else _L4.get(number, 0) if family == "G2" else number / (vcpus_per_gpu or 1)
            parts = {f"{family} Cpu": vcpus, f"{family} Ram": vcpus * gib}
            if gpu:
                parts[gpu] = gpus
            if ssd:
                parts[_LOCAL_SSD] = gpus * ssd
            return parts
    return {}


def _told(old: Row, new: Row | None) -> bool:
    """Whether the new row says everything that the old one does."""
    return new is not None and old.usd.keys() <= new.usd.keys()


def _order(row: Row) -> tuple[Any, ...]:
    numbered = re.sub(r"\d+", lambda digits: digits[0].rjust(6, "0"), row.what)
    return row.what in ledger.section("prices", "items"), numbered, row.region, row.date
