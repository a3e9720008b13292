"""Regions and zones of Google Cloud.

Source: Google Cloud, "Regions and zones" and Memorystore, "Supported regions" (zones), read in November 2026. A region that the price list
has is known too, so an update of the prices (`fleet prices --update`) adds new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from facts import prices

_REGIONS: Final[Mapping[str, str]] = {
    "africa": "south1",
    "asia": "east1 east2 northeast1 northeast2 northeast3 south1 south2 southeast1 southeast2 southeast3",
    "australia": "southeast1 southeast2",
    "europe": "central2 north1 north2 southwest1 west1 west2 west3 west4 west6 west8 west9 west10 west12",
    "me": "central1 central2 west1",
    "northamerica": "northeast1 northeast2 south1",
    "southamerica": "east1 west1",
    "us": "central1 east1 east4 east5 south1 west1 west2 west3 west4",
}
_LETTERS: Final[Mapping[str, str]] = {"us-central1": "abcf", "us-east1": "bcd", "europe-west1": "bcd"}
"""Zones other than a, b and c."""


def regions() -> frozenset[str]:
    """Names of all known regions."""
    listed = {f"{area}-{one}" for area, names in _REGIONS.items() for one in names.split()}
    return frozenset(listed | {row.region for row in prices.rows()} - {"any"})


def zones(region: str) -> tuple[str, ...]:
    """Names of the region's zones."""
    priced = {letter for row in prices.rows() if row.region == region for letter in row.zones}
    return tuple(f"{region}-{letter}" for letter in sorted(set(_LETTERS.get(region, "abc")) | priced))
