"""What `fleet prices` shows."""

from __future__ import annotations

import io
import json
from datetime import date
from typing import Any

import pytest

from facts.user_error import UserError
from fleet.plan.prices.report import known, outline
from fleet.report.as_json import json_text
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper

TODAY = date(2026, 8, 20)


def test_regions_and_ways_are_compared_cheapest_first() -> None:
    found = known("a4-highgpu-8g", None, None, TODAY).prices
    assert [price.usd for price in found] == sorted(price.usd for price in found)
    assert (found[0].region, found[0].mode, found[0].usd) == ("us-east4", "spot", 32.6064)
    assert {price.mode for price in found} == {"spot", "flex-start", "calendar", "cud-1y", "cud-3y"}


def test_one_region_comes_with_what_stands_around_the_servers() -> None:
    found = known("a4-highgpu-8g", "europe-west4", "spot", TODAY)
    assert [(price.usd, price.zones) for price in found.prices] == [(34.0736, "b")]
    assert "nat-data" in {price.what for price in found.items}
    assert "hyperdisk-ml-capacity" in found.unknown_items


def test_the_document_has_every_price_with_date_source_and_age() -> None:
    document = json.loads(json_text(outline(known("a4-highgpu-8g", "europe-west4", None, date(2027, 1, 1)))))
    spot = document["prices"][0]
    assert (spot["region"], spot["date"], spot["source"], spot["old"]) == (
        "europe-west4",
        "2026-07-03",
        "skypilot-2026-07",
        True,
    )
    registry = next(item for item in document["items"] if item["what"] == "registry")
    assert registry["old"] is False  # one price everywhere stands until Google ends it


@pytest.mark.parametrize(
    ("machine", "region", "named"), [("a5", None, "a4-highgpu-8g"), ("a4-highgpu-8g", "mars", "us-east4")]
)
def test_what_nobody_knows_is_refused_with_what_there_is(machine: str, region: str | None, named: str) -> None:
    with pytest.raises(UserError, match=named):
        known(machine, region, None, TODAY)


def test_a_machine_without_any_price_says_so() -> None:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=100, styled=False), outline(known("a4x-highgpu-4g", None, None, TODAY)))
    assert "No published price" in stream.getvalue()


def test_the_wording(golden: Any) -> None:
    stream = io.StringIO()
    print_text(
        Paper(stream=stream, width=100, styled=False),
        outline(known("a4-highgpu-8g", "us-central1", None, TODAY)),
    )
    golden("prices/us-central1.txt", stream.getvalue())
