"""What docs/rehearsal.md and docs/command-line.md say of the rehearsal is what it does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.generate import rehearsal_drills
from fleet.report.as_json import json_text
from lab.control_plane.cache import OVERRIDE
from lab.drills.catalogue import DRILLS
from lab.report.outline import outline
from tests.lab.report.samples import sample_report
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "rehearsal.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
SECTION = COMMANDS.split("## fleet rehearse\n")[1].split("\n## ")[0]


def test_the_table_of_drills_is_the_catalogue() -> None:
    assert rehearsal_drills.with_table(PAGE) == PAGE, "run: python -m docs.generate.rehearsal_drills"
    assert PAGE.count("| `bring-up` |") == 1


def test_a_page_without_its_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="rehearsal_drills"):
        rehearsal_drills.with_table("# no table here")


@each_row("page", sorted((ROOT / "docs").rglob("*.md")))
def test_every_drill_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"--drill ([a-z0-9-]+)", page.read_text(encoding="utf-8")))
    assert named <= {drill.name for drill in DRILLS}


def test_every_key_of_the_json_document_is_described() -> None:
    described = set(re.findall(r"`([a-zA-Z]+)`", SECTION))
    document = json.loads(json_text(outline(sample_report())))
    keys = set(document)
    for part in ("versions", "drills", "findings", "retained"):
        first = document[part][0] if isinstance(document[part], list) else document[part]
        keys |= set(first)
    keys |= set(document["drills"][0]["figures"][0])
    assert keys <= described


def test_the_folder_of_the_programs_is_called_by_its_name() -> None:
    assert f"`{OVERRIDE}`" in PAGE
    assert f"`{OVERRIDE}`" in COMMANDS
