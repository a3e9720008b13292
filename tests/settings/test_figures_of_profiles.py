"""The published row that a report puts beside a stack."""

from __future__ import annotations

import pytest

from facts import figures
from settings.derived.figures import serving_shape
from tests.support.settings import make_settings

REPRODUCING = ("no-mtp-095", "mtp2-095", "mtp1-095", "tp8", "dp8-4096")


@pytest.mark.parametrize("name", REPRODUCING)
def test_a_profile_that_reproduces_a_row_is_put_beside_that_row(name: str) -> None:
    settings = make_settings(server={"profile": name})
    found = figures.match(serving_shape(settings)).figure
    assert found is not None
    assert found.id == settings.serving.profile.reproduces


def test_a_record_without_drafts_is_put_beside_the_row_without_drafts() -> None:
    server = {"profile": "record", "engine": {"speculative": None, "gpuMemoryUtilization": 0.95}}
    found = figures.match(serving_shape(make_settings(server=server))).figure
    assert found is not None
    assert found.id == "phases.no-mtp-095"
