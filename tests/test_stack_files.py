"""`pulumi stack init` and `pulumi config set` change the lines that they should, and no other line of a stack file."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from settings.names import stack_names
from tests.support.engine_form import rewritten

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted([*ROOT.glob("Pulumi.*.yaml"), *ROOT.glob("examples/*/Pulumi.*.yaml"), ROOT / "template" / "Pulumi.yaml"])

STRAY = [
    "config:\n  a: b\n\n  c: d\n",
    "config:\n  a: b\n  # at the end\n",
    "config:\n  a:\n    b: 1\n    # of a\n  c: d\n",
    "config:\n  a:\n      b: 1\n",
    "config:\n  a:\n  - 1\n",
    "config:\n  a: b  # two spaces\n",
    "config:\n  a: {b: 1.50}\n",
    "config:\n  a: {b: 1e3}\n",
    "config:\n  a: {b: 0x10}\n",
    "config:\n  a: {b: True}\n",
    "config:\n  a: {b: ~}\n",
    "config:\n  a: { b: 1 }\n",
    "config:\n  a: [1,\n    2]\n",
    "config:\n  a: 1\n",
    "config:\n  a: >-\n    b\n    c\n",
    "config:\n  a: b",
]
"""Files of which the engine changes more than it was asked to."""
KEPT = [
    "# head\n#\n# more\nconfig:\n  # of a\n  a: b # why\n  #\n  # of c\n  c: # why\n    # of d\n    d: 1\n",
    "config:\n  a:\n    - {b: [1, 2.5, true, null], \"c\": 'd'}\n    - e: \"1\"\n      f: -3\n  g: [\"x\"] # why\n  h: {}\n",
]
"""Files of which it changes nothing else."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_would_keep_every_line(path: Path) -> None:
    assert rewritten(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("text", STRAY)
def test_what_the_engine_would_change_is_found(text: str) -> None:
    assert rewritten(text) != []


@pytest.mark.parametrize("text", KEPT)
def test_what_the_engine_keeps_is_not_reported(text: str) -> None:
    assert rewritten(text) == []
