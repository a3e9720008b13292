"""Which region is near."""

from __future__ import annotations

from facts.regions import nearest_region
from tests.support.rows import each_row


@each_row(
    ("region", "among", "near"),
    [
        ("europe-west4", {"us-central1", "us-east4", "asia-east1"}, "us-east4"),
        ("europe-west4", {"us-central1", "europe-north1", "europe-west1"}, "europe-west1"),
        ("asia-northeast1", {"asia-northeast2", "us-west1"}, "asia-northeast2"),
        ("us-central1", {"us-central1", "us-east1"}, "us-central1"),
        ("us-west1", {"asia-northeast1", "southamerica-east1"}, "asia-northeast1"),
        ("europe-west99", {"us-central1"}, None),
        ("us-central1", set(), None),
    ],
)
def test_the_nearest_region_is_near_on_the_globe(region: str, among: set[str], near: str | None) -> None:
    assert nearest_region(region, among) == near
