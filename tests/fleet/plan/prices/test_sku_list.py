"""From a downloaded list of SKUs to rows of the price list. The list is made up: no real one may be kept here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facts import prices
from facts.prices import Row
from fleet.plan.prices.sku_list import SOURCE, SkuListError, file_text, rates, read, rewritten
from tests.fleet.plan.prices.made_up_skus import DAY, SKUS, sku


def row(what: str, region: str = "europe-west4") -> Row:
    return next(
        row
        for row in rewritten(prices.rows(), rates(SKUS))
        if (row.what, row.region, row.source) == (what, region, SOURCE)
    )


def test_eight_slices_are_an_a4_machine_in_every_way_that_it_is_sold() -> None:
    found = row("a4-highgpu-8g")
    assert found.usd == {"spot": 40.0, "flex-start": 64.0, "calendar": 88.0, "cud-1y": 84.0, "cud-3y": 56.0}
    assert (found.date, found.zones) == (DAY, "b")


def test_a_machine_is_the_sum_of_its_parts_and_unpriced_where_one_is_missing() -> None:
    # 12 vCPU, 48 GiB, one L4. Spot lacks the price of memory.
    assert row("g2-standard-12").usd == {"on-demand": pytest.approx(12 * 0.025 + 48 * 0.003 + 0.6)}
    assert row("g2-standard-96").usd == {"on-demand": pytest.approx(96 * 0.025 + 384 * 0.003 + 8 * 0.6)}
    # 208 vCPU, 1,872 GiB, eight H100 and 6,000 GB of local SSD, which is priced by the month.
    assert row("a3-highgpu-8g").usd == {"on-demand": pytest.approx(208 * 0.03 + 1872 * 0.0025 + 80 + 6000 * 0.0001)}
    with pytest.raises(StopIteration):
        row("a3-highgpu-1g")  # not sold on demand


def test_items_have_the_unit_of_the_bill() -> None:
    assert row("hyperdisk-ml-capacity").usd == {"on-demand": pytest.approx(0.073)}
    assert row("hyperdisk-ml-throughput").usd == {"on-demand": pytest.approx(0.13)}
    assert row("nat-data", prices.EVERYWHERE).usd == {"on-demand": pytest.approx(0.05)}


def test_what_the_list_does_not_tell_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = prices.rows()
    new = rewritten(old, rates(SKUS))
    assert [row for row in old if row.region == "us-central1" and row not in new] == []
    # The Spot price of a G2 is not in the list: the older row keeps it.
    of_g2 = [row for row in new if (row.what, row.region) == ("g2-standard-12", "europe-west4")]
    assert [row.source for row in of_g2] == ["sku-extract-2026-07", SOURCE]
    file = tmp_path / "prices.csv"
    file.write_text(file_text(new, "# a heading\n", prices.COLUMNS))
    monkeypatch.setattr(prices, "FILE", file)
    prices.rows.cache_clear()
    try:
        assert prices.rows() == new
    finally:
        monkeypatch.undo()
        prices.rows.cache_clear()


def test_the_file_in_the_repository_is_as_this_would_write_it() -> None:
    text = prices.FILE.read_text("utf-8")
    heading = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    assert file_text(prices.rows(), heading, prices.COLUMNS) == text


def test_a_place_that_is_no_region_has_no_row() -> None:
    elsewhere = sku("Hyperdisk ML Capacity in Europe", 0.1, "GiBy.mo", regions=("europe", "x,y\nz"))
    assert rates([elsewhere]) == {}


def test_pages_of_a_folder_are_one_list(tmp_path: Path) -> None:
    half = len(SKUS) // 2
    (tmp_path / "page-0.json").write_text(json.dumps({"skus": SKUS[:half], "nextPageToken": "more"}))
    (tmp_path / "page-1.json").write_text(json.dumps({"skus": SKUS[half:], "nextPageToken": ""}))
    assert read(tmp_path) == rates(SKUS)


EURO = sku("Nvidia L4 GPU running in Netherlands", 0.6)
EURO["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["currencyCode"] = "EUR"
UNDATED = sku("Nvidia L4 GPU running in Netherlands", 0.6)
UNDATED["pricingInfo"][0]["effectiveTime"] = "today,,,"
ENDLESS = sku("Nvidia L4 GPU running in Netherlands", 0.6)
ENDLESS["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["nanos"] = float("inf")
PRICELESS = {
    key: value for key, value in sku("Nvidia L4 GPU running in Netherlands", 0.6).items() if key != "pricingInfo"
}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", '"skus"'),
        ('{"skus": [1]}', '"skus"'),
        ('{"error": {"code": 403, "message": "key AIza0123"}}', "403"),
        ({"skus": SKUS, "nextPageToken": "more"}, "6F81-5844-456A"),
        ({"skus": [EURO]}, "EUR"),
        ({"skus": [PRICELESS]}, "pricingInfo"),
        ({"skus": [UNDATED]}, "pricingInfo"),
        (json.dumps({"skus": [ENDLESS]}), "not JSON"),
        ({"skus": [sku("Licensing Fee", 1.0)]}, "6F81-5844-456A"),
        ({"skus": []}, "6F81-5844-456A"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_a_file_that_is_no_list_is_refused_in_one_line(tmp_path: Path, content: Any, named: str) -> None:
    file = tmp_path / "skus.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(SkuListError) as caught:
        rewritten(prices.rows(), read(file))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "AIza" not in str(caught.value)


def test_a_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SkuListError, match=r"no \.json file"):
        read(tmp_path)
