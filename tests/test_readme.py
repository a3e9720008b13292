"""What the README and the guides promise is there: targets, commands, files, figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet.preview.offline import open_stack
from settings.derived.figures import figures
from settings.stack_file import stack_names

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) | set(
            re.findall(r"^make ([a-z-]+)(?= *(?:#|$|[A-Z]+=))", page.read_text(encoding="utf-8"), re.MULTILINE)
        )
        assert named <= targets, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_the_table_of_stacks_says_what_the_preview_says(stack: str) -> None:
    row = next(line for line in README.splitlines() if line.startswith(f"| [{stack}]"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    numbers = figures(open_stack(ROOT, stack).settings)
    assert cells[2] == str(numbers.replicas)
    assert cells[4] == f"${numbers.bill.usd_per_hour_known:,.0f}"
    published = numbers.total_tokens_per_s
    assert cells[5] == (f"{published:,} tok/s" if published else "nothing: another profile")


def test_every_fleet_command_that_is_named_exists() -> None:
    from typer.testing import CliRunner

    from fleet.cli.app import app

    commands = set()
    for page in PAGES:
        commands |= set(
            re.findall(
                r"`?fleet (preview|render|plan|config schema|config check|rehearse|doctor|verify|bench [a-z]+)\b",
                page.read_text(encoding="utf-8"),
            )
        )
        unknown = set(re.findall(r"`fleet ([a-z]+)", page.read_text(encoding="utf-8"))) - {
            "preview",
            "render",
            "plan",
            "config",
            "rehearse",
            "doctor",
            "verify",
            "bench",
        }
        assert not unknown, f"{page}: {unknown}"
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
