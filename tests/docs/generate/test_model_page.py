"""Tests of the page about the model and of its pictures."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.generate import model_page
from docs.generate.model_picture import pictures
from facts.workloads import named_workload
from fleet.plan.model.calibration import FITTED
from fleet.plan.model.checks import checks
from fleet.plan.model.deployment import measured_load, record_fleet
from fleet.plan.model.errors import errors
from fleet.plan.model.performance import estimate


@cache
def page() -> str:
    return model_page.page()


def test_page_and_pictures_in_the_repository_are_those_the_model_gives() -> None:
    assert model_page.PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.generate.model_page"
    found = {name: (model_page.IMAGES / name).read_text(encoding="utf-8") for name in pictures()}
    assert found == pictures(), "run: python -m docs.generate.model_page"


def test_main_writes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_page, "PAGE", tmp_path / "planner-model.md")
    monkeypatch.setattr(model_page, "IMAGES", tmp_path)
    model_page.main()
    assert (tmp_path / "planner-model.md").read_text(encoding="utf-8") == page()
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in pictures()} == pictures()


def test_every_row_parameter_and_error_is_on_the_page() -> None:
    for error in errors():
        assert f"`{error.row.id.partition(':')[0]}`" in page()
        assert f"| {error.percent:+.1f} % |" in page()
    for name in FITTED:
        assert f"| `{name}` |" in page()


def test_no_placeholder_is_left_and_every_table_is_square() -> None:
    assert not re.search(r"\$\w", page())
    width = 0
    for line in page().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line


def test_the_page_points_to_every_picture() -> None:
    targets = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page())
    assert [model_page.DOCS / target for target in targets] == [model_page.IMAGES / name for name in pictures()]


def test_the_picture_is_well_formed_and_names_every_predicted_row() -> None:
    texts = [
        element.text
        for element in ElementTree.fromstring(pictures()["planner-errors.svg"]).iter()
        if element.tag.endswith("text")
    ]
    drawn = [error for error in errors("predicted") if error.row.metric != "ttft_ms"]
    assert sum(
        text is not None and text.startswith(("run 1,", "run 2,", "gateway,", "users,")) for text in texts
    ) == len(drawn)
    assert "run 1, 12 nodes: tok/s" in texts


def test_what_the_prose_says_in_words_is_what_the_model_says_in_numbers() -> None:
    found = {check.id: check.error_percent for check in checks()}
    assert [round(found[f"trial.rate-{load}-quiet"]) for load in (250, 128)] == [-8, -9]
    assert [round(found[f"trial.rate-{load}-as-fitted"]) for load in (250, 128)] == [-23, -32]
    assert abs(found["trial.tpot-250-quiet"]) > abs(found["trial.tpot-128-quiet"])
    chunks = [error.percent for error in errors("check") if error.row.metric in ("itl_ms", "itl_median_ms")]
    assert (round(max(chunks)), round(min(chunks))) == (-6, -15)
    assert all(abs(error.percent) < 14 for error in errors("check") if error.row.metric == "itl_p99_ms")
    record = estimate(record_fleet(1), named_workload("article"), measured_load(1))
    whole, first = record.seconds_per_request.value, record.ttft_ms.value / 1e3
    assert round(whole / first) == 4
    assert round((whole - first) / first) == 3
