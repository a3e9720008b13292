from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import figures

ROOT = Path(__file__).parents[2]
PACK = ROOT / "policy"
ALL: dict[str, dict[str, Any]] = yaml.safe_load((PACK / "figures.yaml").read_text(encoding="utf-8"))


def used(kind: str) -> set[str]:
    sources = [*PACK.glob("*.py"), *PACK.glob("rules/*.py")]
    return {
        name
        for source in sources
        for name in re.findall(rf'\b{kind}\(\s*"([^"]+)"', source.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("key", sorted(ALL["ledger"]))
def test_a_figure_is_the_ledgers(key: str) -> None:
    file, *path = key.split(".")
    value = yaml.safe_load((ROOT / "facts" / "data" / f"{file}.yaml").read_text(encoding="utf-8"))
    for step in path:
        value = value[step]
    assert figures.ledger(key) == value


@pytest.mark.parametrize("key", sorted(ALL["constants"]))
def test_a_constant_is_the_programs(key: str) -> None:
    module, _, name = key.rpartition(".")
    assert figures.constant(key) == getattr(importlib.import_module(module), name)


def test_every_figure_is_quoted_and_every_quoted_one_is_there() -> None:
    assert used("ledger") == set(ALL["ledger"])
    assert used("constant") == set(ALL["constants"])


def test_the_file_has_no_other_sections() -> None:
    assert set(ALL) == {"ledger", "constants", "architectures"}


def test_a_figure_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        figures.ledger("phases.figures.none")
