"""What is advised: a row has one id, reason and cure, and a finding that needs nothing is for information, and stops no pipeline."""

from __future__ import annotations

import importlib
import pkgutil

from settings import checks
from settings.row import Row

ROWS = [
    one
    for module in pkgutil.iter_modules(checks.__path__, f"{checks.__name__}.")
    for one in vars(importlib.import_module(module.name)).values()
    if isinstance(one, Row)
]


def test_a_row_whose_cure_is_nothing_is_a_note() -> None:
    assert [one.id for one in ROWS if one.cure.startswith("nothing") and one.severity != "note"] == []


def test_each_id_says_one_thing() -> None:
    ids = [one.id for one in ROWS]
    assert len(set(ids)) == len(ids) > 100
