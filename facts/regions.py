"""Regions and zones of Google Cloud.

Source: Google Cloud, "Regions and zones" and Memorystore, "Supported regions" (zones), read in November 2026. A region that the price list
has is known too, so a row of a new one adds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import acos, cos, radians, sin
from typing import Final

from facts import prices

_PLACES: Final[Mapping[str, tuple[float, float]]] = {
    "africa-south1": (-26.2, 28.0),
    "asia-east1": (24.1, 120.5),
    "asia-east2": (22.3, 114.2),
    "asia-northeast1": (35.7, 139.7),
    "asia-northeast2": (34.7, 135.5),
    "asia-northeast3": (37.6, 127.0),
    "asia-south1": (19.1, 72.9),
    "asia-south2": (28.6, 77.2),
    "asia-southeast1": (1.3, 103.8),
    "asia-southeast2": (-6.2, 106.8),
    "asia-southeast3": (13.8, 100.5),
    "australia-southeast1": (-33.9, 151.2),
    "australia-southeast2": (-37.8, 145.0),
    "europe-central2": (52.2, 21.0),
    "europe-north1": (60.6, 27.2),
    "europe-north2": (59.3, 18.1),
    "europe-southwest1": (40.4, -3.7),
    "europe-west1": (50.4, 3.8),
    "europe-west2": (51.5, -0.1),
    "europe-west3": (50.1, 8.7),
    "europe-west4": (53.4, 6.8),
    "europe-west6": (47.4, 8.5),
    "europe-west8": (45.5, 9.2),
    "europe-west9": (48.9, 2.4),
    "europe-west10": (52.5, 13.4),
    "europe-west12": (45.1, 7.7),
    "me-central1": (25.3, 51.5),
    "me-central2": (26.4, 50.1),
    "me-west1": (32.1, 34.8),
    "northamerica-northeast1": (45.5, -73.6),
    "northamerica-northeast2": (43.7, -79.4),
    "northamerica-south1": (20.6, -100.4),
    "southamerica-east1": (-23.6, -46.6),
    "southamerica-west1": (-33.4, -70.7),
    "us-central1": (41.3, -95.9),
    "us-east1": (33.2, -80.0),
    "us-east4": (39.0, -77.5),
    "us-east5": (40.0, -83.0),
    "us-south1": (32.8, -96.8),
    "us-west1": (45.6, -121.2),
    "us-west2": (34.1, -118.2),
    "us-west3": (40.8, -111.9),
    "us-west4": (36.2, -115.1),
}
"""Regions with latitude and longitude of their cities, in degrees; good for telling which region is near, not for latency."""
_LETTERS: Final[Mapping[str, str]] = {"us-central1": "abcf", "us-east1": "bcd", "europe-west1": "bcd"}
"""Zones other than a, b and c."""


def regions() -> frozenset[str]:
    """Names of all known regions."""
    return frozenset(_PLACES.keys() | {row.region for row in prices.rows()} - {"any"})


def zones(region: str) -> tuple[str, ...]:
    """Names of the region's zones."""
    priced = {letter for row in prices.rows() if row.region == region for letter in row.zones}
    return tuple(f"{region}-{letter}" for letter in sorted(set(_LETTERS.get(region, "abc")) | priced))


def nearest_region(region: str, among: Iterable[str]) -> str | None:
    """The region of `among` that is closest on the globe; None if no place is known."""
    here = _PLACES.get(region)
    placed = [one for one in among if one in _PLACES]
    return min(placed, key=lambda one: (_angle(here, _PLACES[one]), one), default=None) if here else None


def _angle(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Angle between two places on the globe, in radians."""
    (latitude, longitude), (latitude_2, longitude_2) = (map(radians, place) for place in (one, other))
    cosine = sin(latitude) * sin(latitude_2) + cos(latitude) * cos(latitude_2) * cos(longitude - longitude_2)
    return acos(min(1.0, max(-1.0, cosine)))
