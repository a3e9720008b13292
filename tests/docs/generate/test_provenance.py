"""Tests of the page of figures, sources and disputes."""

from __future__ import annotations

from docs.generate import provenance


def test_the_page_in_the_repository_is_the_one_the_ledger_gives() -> None:
    assert provenance.PAGE.read_text(encoding="utf-8") == provenance.page(), "run: python -m docs.generate.provenance"


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in provenance.page().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line
