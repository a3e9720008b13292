"""What is advised: a finding that needs nothing is for information, and stops no pipeline."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from settings.checks import model
from tests.support.rows import each_row

ROOT = Path(model.__file__).parents[2]
SOURCES = sorted((ROOT / "settings").rglob("*.py"))


def calls(source: Path) -> Iterator[tuple[str, str, str]]:
    """Place, advice and severity of each call that makes a finding, as source code."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        given = {word.arg: ast.unparse(word.value) for word in node.keywords} if isinstance(node, ast.Call) else {}
        if "write" in given:
            yield f"{source.name}:{node.lineno}", given["write"], given.get("severity", "'error'")


@each_row("source", SOURCES)
def test_a_finding_whose_advice_is_nothing_is_a_note(source: Path) -> None:
    for place, write, severity in calls(source):
        assert "'nothing" not in write or "'note'" in severity, place


def test_findings_are_seen() -> None:
    assert sum(1 for source in SOURCES for _ in calls(source)) > 100
