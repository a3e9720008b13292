"""Tests of the page of figures, sources and disputes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import provenance
from facts import figures, ledger


def test_the_page_in_the_repository_is_the_one_the_ledger_gives() -> None:
    assert provenance.PAGE.read_text(encoding="utf-8") == provenance.page(), "run: python -m docs.generate.provenance"


def test_main_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PAGE", tmp_path / "provenance.md")
    provenance.main()
    assert (tmp_path / "provenance.md").read_text(encoding="utf-8") == provenance.page()


def test_every_figure_source_and_dispute_is_on_the_page() -> None:
    page = provenance.page()
    for figure in figures.all_figures():
        assert f"`{figure.id}`" in page
    for id_ in ledger.section("sources", "sources"):
        assert f"| `{id_}` |" in page
    for id_ in ledger.section("disputes", "disputes"):
        assert f"\n### {id_}\n" in page


def test_every_link_to_a_dispute_leads_to_its_heading() -> None:
    page = provenance.page()
    targets = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert targets
    assert all(f"\n### {target}\n" in page for target in targets)


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in provenance.page().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line


def test_both_sides_of_the_price_of_a_million_tokens_are_kept() -> None:
    page = provenance.page()
    assert "$0.30" in page
    assert "$0.2685" in page
