"""What tests/conftest.py promises of property tests: every run tries the same examples."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers


def _tried() -> list[int]:
    numbers = []

    @settings(max_examples=300)
    @given(integers())
    def look(number: int) -> None:
        numbers.append(number)

    look()
    return numbers


def test_examples_do_not_depend_on_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tried()
    file = tmp_path / "constants.py"
    file.write_text("\n".join(f"N{number} = {number}" for number in range(1_234_000, 1_234_500)))
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, file.stem, module)
    assert _tried() == before
