"""The published row that a report puts beside a stack."""

from __future__ import annotations

from typing import Any

import pytest

from facts import figures, ledger
from settings.derived.figures import serving_shape
from settings.sections.engine import effective_flags
from tests.support.phases import PHASES
from tests.support.rows import each_row
from tests.support.settings import make_settings


@each_row(("row", "engine"), PHASES.items())
def test_the_phases_here_have_every_flag_of_their_row(row: str, engine: dict[str, Any]) -> None:
    shape = ledger.entry("shapes", "shapes", ledger.entry("phases", "figures", row.removeprefix("phases."))["shape"])
    flags = dict(shape["flags"])
    while base := shape.get("base"):
        shape = ledger.entry("shapes", "shapes", base)
        flags = {**shape["flags"], **flags}
    given = effective_flags(make_settings(server={"engine": engine}).serving.engine)
    assert {flag: given.get(flag) for flag in flags} == flags


@pytest.mark.parametrize(
    "row", ["phases.no-mtp-095", "phases.mtp2-095", "phases.mtp1-095", "phases.tp8", "phases.dp8-4096"]
)
def test_a_phase_is_put_beside_its_row(row: str) -> None:
    found = figures.match(serving_shape(make_settings(server={"replicas": 1, "engine": PHASES[row]}))).figure
    assert found is not None
    assert found.id == row
