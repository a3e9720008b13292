"""Stack files that the guides show whole: each can be pasted, checked and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.preview.offline import open_stack, record_stack
from tests.fleet.cli.command import fleet, whole_project
from tests.guides.lines import ROOT, stack_files
from tests.support.engine_form import rewritten
from tests.support.rows import each_row

SHOWN = [(str(page.relative_to(ROOT)), stack) for page in sorted(ROOT.glob("docs/*.md")) for stack in stack_files(page)]


def pasted(folder: Path, page: str, stack: str) -> Path:
    """A project with the shipped stack files and the page's, of a reader's own project."""
    root = whole_project(folder)
    shipped = {file.name: file.read_text(encoding="utf-8") for file in ROOT.glob("Pulumi.*.yaml")}
    for name, text in {**shipped, f"Pulumi.{stack}.yaml": stack_files(ROOT / page)[stack]}.items():
        (root / name).write_text(text.replace("your-project-id", "my-project"), encoding="utf-8")
    return root


@pytest.mark.parametrize(("page", "stack"), SHOWN)
def test_nothing_of_it_is_refused(page: str, stack: str, tmp_path: Path) -> None:
    done = fleet("check", "--stack", stack, cwd=pasted(tmp_path, page, stack))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("page", "stack"), SHOWN)
def test_it_makes_servers(page: str, stack: str, tmp_path: Path) -> None:
    recording = record_stack(open_stack(pasted(tmp_path, page, stack), stack), "known")
    assert "server-deployment" in {one.name for one in recording.resources}


@each_row(("page", "stack"), SHOWN)
def test_the_engine_would_keep_every_line(page: str, stack: str) -> None:
    assert rewritten(stack_files(ROOT / page)[stack]) == []
