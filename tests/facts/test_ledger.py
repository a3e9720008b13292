"""Tests of the ledger's files and of what it says when something is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts import ledger, prices
from facts.ledger import LedgerError
from facts.machines import B200, MACHINES
from facts.sizing import BENCHMARK_MACHINES


def test_an_unknown_file_is_refused_with_the_files_there_are() -> None:
    with pytest.raises(LedgerError, match=r"no file 'phase'; it has .*phases.*prices"):
        ledger.load("phase")


def test_an_unknown_section_or_entry_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(LedgerError, match=r"prices.yaml has no section 'item'; it has article, capacity.*items"):
        ledger.section("prices", "item")
    with pytest.raises(LedgerError, match=r"prices.yaml has no entry 'on demand' in 'capacity'; it has .*spot"):
        ledger.entry("prices", "capacity", "on demand")


@pytest.mark.parametrize(
    ("text", "message"), [("- 1\n", "must be a mapping, got list"), ("a: [", "broken.yaml is not valid YAML")]
)
def test_a_broken_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    (tmp_path / "broken.yaml").write_text(text)
    monkeypatch.setattr(ledger, "DATA_FOLDER", tmp_path)
    ledger.load.cache_clear()
    with pytest.raises(LedgerError, match=message):
        ledger.load("broken")


def test_a_file_is_read_once() -> None:
    assert ledger.load("prices") is ledger.load("prices")


def test_every_file_parses_alike_with_the_slow_loader() -> None:
    for name in ledger.names():
        text = (ledger.DATA_FOLDER / f"{name}.yaml").read_text()
        assert yaml.safe_load(text) == ledger.load(name), name


def test_every_source_named_anywhere_exists_and_is_dated() -> None:
    named = {value for name in ledger.names() for key, value in _scalars(ledger.load(name)) if key == "source"}
    assert named - {None}
    for id_ in sorted(named):
        assert ledger.source(id_).date


def test_every_dispute_named_anywhere_exists_and_keeps_at_least_two_values() -> None:
    for name in ledger.names():
        for key, value in _scalars(ledger.load(name)):
            if key == "disputed":
                assert len(ledger.dispute(value).values) >= 2, (name, value)
    for id_ in ledger.section("disputes", "disputes"):
        dispute = ledger.dispute(id_)
        assert len(dispute.values) >= 2
        assert dispute.note


def test_every_row_of_the_price_list_has_a_source_a_date_and_a_place_of_its_own() -> None:
    rows = prices.rows()
    known = set(ledger.section("prices", "items"))
    heading = next(line for line in prices.FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    assert heading.split(",") == ["what", "region", "zones", *prices.MODES, "date", "source"]
    for row in rows:
        assert row.what in known | MACHINES.keys() | BENCHMARK_MACHINES.keys(), row
        assert row.region == prices.EVERYWHERE or re.fullmatch(r"[a-z]+-[a-z]+\d+", row.region), row
        assert ledger.source(row.source), row
        assert date.fromisoformat(row.date) > date(2020, 1, 1), row
        assert all(usd > 0 for usd in row.usd.values()), row
        assert row.usd.keys() <= {"on-demand"} or row.what not in known, row
    assert len({(row.what, row.region, row.date, row.source) for row in rows}) == len(rows)


def test_what_the_disputes_derive_follows_from_what_is_published() -> None:
    tflops = ledger.value("cluster_ip_rerun.figures.mfu.details.tflops_per_gpu")
    assert tflops["share_percent"] == round(100 * tflops["mean"] / tflops["of"], 1)
    assert round(100 * tflops["mean"] * 1e12 / B200.fp8_flop_per_s, 1) == 8.8
    for nodes, in_flight in ((12, 22_400), (8, 14_900)):
        row = ledger.entry("cluster_ip", "figures", f"nodes-{nodes}")
        seconds = row["ttft_median_ms"] / 1e3 + 384 * 0.046
        assert row["total_tokens_per_s"] / 1_148 * seconds == pytest.approx(in_flight, rel=0.01)


def test_the_ratios_of_the_hardware_table_are_those_of_its_numbers() -> None:
    for row in ledger.section("article", "hardware").values():
        h100, b200 = (float(row[name].split()[0]) for name in ("h100_sxm", "b200_sxm"))
        assert b200 / h100 == pytest.approx(row["ratio"], abs=0.05)


def test_every_equivalence_carries_an_argument_and_says_for_which_values() -> None:
    for section in ("fields", "flags", "env"):
        for name, rule in ledger.section("equivalences", section).items():
            assert len(rule["argument"]) > 10, name
            assert rule.get("any") is True or len(rule["either"]) >= 2, name


def _scalars(node: Any, key: str | None = None) -> Iterator[tuple[str | None, Any]]:
    if isinstance(node, dict):
        for inner_key, value in node.items():
            yield from _scalars(value, inner_key)
    elif isinstance(node, list):
        for value in node:
            yield from _scalars(value, key)
    else:
        yield key, node
