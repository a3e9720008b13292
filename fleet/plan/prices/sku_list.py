"""Computes prices of machines and items from a downloaded SKU list.

The list is the Cloud Billing Catalog API's response to `services.skus.list`, as JSON pages. Format and units:
cloud.google.com/billing/v1/how-tos/catalog-api and the reference of google.cloud.billing.v1. Descriptions of SKUs:
Cyclenerd/google-cloud-pricing-cost-calculator, build/mapping.csv of 2026-08-20; those of A4 from public tests of other tools.
Google sells vCPU, memory, GPUs and local SSD separately, so a machine's price is their sum, given only if all of
them are in the list. No network access.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

from facts import ledger, strict_json
from facts.cost import HOURS_PER_MONTH
from facts.prices import EVERYWHERE, MODES, Mode, Row
from facts.user_error import UserError

SOURCE: Final = "downloaded-sku-list"
MOST_BYTES: Final = 64 * 2**20
"""Size limit of one page. Measured: 5,000 SKUs, a page's maximum, are about 8 MiB."""

_LOCAL_SSD: Final = "SSD backed Local Storage"
_COMMITMENTS: Final[Mapping[str, Mode]] = {"1": "cud-1y", "3": "cud-3y"}
_COMMITTED: Final = re.compile(r"Commitment v1: (?P<stem>.+?) in .+ for (?P<years>[13]) Years?", re.IGNORECASE)
_MODES: Final[tuple[tuple[re.Pattern[str], Mode], ...]] = (
    (re.compile(r"^Spot Preemptible | attached to Spot Preemptible VMs"), "spot"),
    (re.compile(r"^DWS Calendar Mode | attached to DWS Calendar Mode VMs"), "calendar"),
    (re.compile(r"^DWS Defined Duration | attached to DWS Defined Duration VMs"), "flex-start"),
)
"""Modes of SKUs whose usage type is nevertheless "OnDemand", as for B200."""
_REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")
"""Regions; a stack cannot use multi-regions ("us", "europe")."""
_PLACE: Final = re.compile(r"(?: running)? in .+$", re.IGNORECASE)

_NOT_ON_DEMAND: Final = re.compile(r"a4-|a3-highgpu-[124]g")
"""Machines with an on-demand SKU that is not sold. Source: GPU machine types, Compute Engine documentation."""
_NOT_COMMITTED: Final = re.compile(r"a2-ultragpu")
"""Machines without public commitments although their parts have SKUs. Source: Cyclenerd, build/pricing.pl."""
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
"""GPUs by vCPUs of g2-standard machines, which have no fixed ratio."""
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


class SkuListError(UserError):
    """The file is not a usable SKU list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The price of one SKU."""

    usd: float
    unit: str
    """Unit in the catalog: "h", "GiBy.h", "GiBy.mo", "GiBy"."""
    date: str

    @property
    def usd_per_hour(self) -> float:
        """Price per hour of an hourly or monthly rate."""
        return self.usd / HOURS_PER_MONTH if self.unit.endswith("mo") else self.usd


Rates = Mapping[tuple[str, Mode, str], Rate]
"""Rates by SKU stem, provisioning mode and region."""


def read(path: Path) -> Rates:
    """Rates in a file, or in all JSON files of a folder. Raises SkuListError."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise SkuListError(f"{path}: no .json file in the folder; save the pages of the SKU list there")
    skus: list[Mapping[str, Any]] = []
    open_ends: dict[str, int] = {}
    for file in files:
        page = _page(file)
        found = page["skus"]
        skus += found
        for service in {_service(sku) for sku in found}:
            # Only the last page has no token: n pages contain n - 1 tokens.
            open_ends[service] = open_ends.get(service, 1) - (0 if page.get("nextPageToken") else 1)
    missing = sorted(service for service, ends in open_ends.items() if ends > 0)
    if missing:
        raise SkuListError(f"{path}: the last page of {', '.join(missing)} is missing; follow nextPageToken to its end")
    return rates(skus)


def rates(skus: Iterable[Mapping[str, Any]]) -> Rates:
    """Rates of recognized SKUs. Raises SkuListError for a currency other than USD."""
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
    """The rows, updated from the rates; rows without a rate stay unchanged.

    Raises SkuListError if no row can be updated.
    """
    zones = {(row.what, row.region): row.zones for row in old}
    new = [
        Row(what=what, region=region, zones=zones.get((what, region), ""), usd=usd, date=day, source=SOURCE)
        for what in dict.fromkeys([*(row.what for row in old), *_ITEMS])
        for region, usd, day in _priced(what, found)
    ]
    if not new:
        raise SkuListError(
            "contains no SKU of a machine or item in the price list; expected service: Compute Engine, 6F81-5844-456A"
        )
    told = {(row.what, row.region): row for row in new}
    kept = [row for row in old if not _told(row, told.get((row.what, row.region)))]
    return tuple(sorted([*kept, *new], key=_order))


def file_text(rows: Iterable[Row], heading: str, columns: Sequence[str]) -> str:
    """The CSV file for facts/prices.py: comments, columns, rows."""
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
        raise SkuListError(f"{file}: larger than {MOST_BYTES // 2**20} MiB; a page of the SKU list has about 8")
    try:
        page = strict_json.loads(file.read_bytes())
    except ValueError:
        raise SkuListError(f"{file}: not JSON; save the unmodified response of the Cloud Billing Catalog API") from None
    if isinstance(page, dict) and isinstance(page.get("error"), dict):
        raise SkuListError(f"{file}: an API error response (code {page['error'].get('code')})")
    skus = page.get("skus") if isinstance(page, dict) else None
    if not isinstance(skus, list) or not all(isinstance(sku, dict) for sku in skus):
        raise SkuListError(
            f'{file}: not an SKU list; expected an object with "skus", as in the response of services.skus.list'
        )
    return cast(Mapping[str, Any], page)


def _service(sku: Mapping[str, Any]) -> str:
    return "/".join(str(sku.get("name", "")).split("/")[:2]) or "services/unnamed"


def _named(description: str) -> tuple[str, Mode] | None:
    """Stem and provisioning mode of a SKU; None if not recognized."""
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
    """The first rate above zero, after any free allowance."""
    try:
        info = sku["pricingInfo"][-1]
        expression = info["pricingExpression"]
        for tier in expression["tieredRates"]:
            price = tier["unitPrice"]
            if price.get("currencyCode", "USD") != "USD":
                raise SkuListError(f"prices are in {price['currencyCode']}; request them in USD (currencyCode)")
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
    """Prices with their date, by region."""
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
            usd[mode] = round(amount, 9)  # nanodollars, the catalog's precision
            dates += [rate.date for rate, _ in known]
        if usd:
            yield region, usd, min(dates)


def _per_unit(rate: Rate, item: str) -> float:
    """The rate per machine-hour, or per unit of an item."""
    unit = str(ledger.entry("prices", "items", item)["unit"]) if item else "hour"
    if unit.endswith("-month"):
        return rate.usd_per_hour * HOURS_PER_MONTH
    return rate.usd_per_hour if unit.endswith("hour") else rate.usd


def _is_sold(what: str, mode: Mode) -> bool:
    if mode == "on-demand":
        return not _NOT_ON_DEMAND.match(what)
    return not (mode in _COMMITMENTS.values() and _NOT_COMMITTED.match(what))


def _parts(machine: str) -> dict[str, float]:
    """SKUs of a machine with quantities; empty for an unknown machine."""
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
    """Whether the new row has every price of the old one."""
    return new is not None and old.usd.keys() <= new.usd.keys()


def _order(row: Row) -> tuple[Any, ...]:
    numbered = re.sub(r"\d+", lambda digits: digits[0].rjust(6, "0"), row.what)
    return row.what in ledger.section("prices", "items"), numbered, row.region, row.date
