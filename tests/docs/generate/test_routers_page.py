"""Tests of the page about measured routers."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import routers_page
from facts import ledger


def test_the_page_in_the_repository_is_that_of_the_figures() -> None:
    assert routers_page.PAGE.read_text(encoding="utf-8") == routers_page.page(), (
        "run: python -m docs.generate.routers_page"
    )


def test_main_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers_page, "PAGE", tmp_path / "routers.md")
    routers_page.main()
    assert (tmp_path / "routers.md").read_text(encoding="utf-8") == routers_page.page()


def test_every_measured_router_has_a_name_on_the_page() -> None:
    content = ledger.load("routers")
    for section in ("cost", "balance", "prefixes", "streams", "server_dies"):
        assert set(content[section]) <= set(routers_page.NAMES), section
