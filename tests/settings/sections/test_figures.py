"""The published figures that docstrings of the settings quote are the ledger's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from facts import ledger
from facts.engines import LONGEST_CONTEXT_TOKENS
from tests.support.rows import each_row

SECTIONS = Path(__file__).parents[3] / "settings" / "sections"


def numbers(value: Any) -> Iterator[float]:
    """Every number in the ledger, also those that stand in its sentences."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers(one)
    elif isinstance(value, str):
        yield from (float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", value))
    elif isinstance(value, int | float):
        yield float(value)


@each_row("file", sorted(SECTIONS.glob("*.py")))
def test_a_number_that_a_docstring_quotes_is_known_to_the_facts(file: Path) -> None:
    known = {LONGEST_CONTEXT_TOKENS, *(one for name in ledger.names() for one in numbers(ledger.load(name)))}
    quoted = {float(one.replace(",", "")) for one in re.findall(r"(?<![\d_.])\d{2,3},\d{3}(?![\d,])", file.read_text())}
    assert quoted <= known
