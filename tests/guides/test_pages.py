"""Every `pulumi` line of the guides, typed on the engine in the order of its page, and none forgotten."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.guides.lines import ROOT, commands, pages, stack_files
from tests.guides.table import PAGES, AsOn, Elsewhere, Typed
from tests.guides.world import world
from tests.support.rows import each_row

FOUND = pages()
PLAYED = [page for page in PAGES if any(isinstance(step, Typed) for step in PAGES[page].steps)]


def test_the_table_has_every_page_with_a_command() -> None:
    assert PAGES.keys() == FOUND.keys()


@each_row("page", PAGES)
def test_the_table_has_every_line_in_the_order_of_its_page(page: str) -> None:
    assert [step.line for step in PAGES[page].steps] == FOUND[page]


def test_a_line_that_is_typed_elsewhere_is_typed_there() -> None:
    for page in PAGES.values():
        for step in page.steps:
            if isinstance(step, Elsewhere):
                program = (Path(__file__).parent / step.test).read_text(encoding="utf-8")
                assert (step.text or step.line) in program, step.line
            if isinstance(step, AsOn):
                assert step.typed in {other.line for other in PAGES[step.page].steps if isinstance(other, Typed)}, (
                    step.line
                )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Run `pulumi up`, then `pulumi up --stack dev`.", ["pulumi up --stack dev"]),
        (
            "```sh\npulumi login   # where\nfleet doctor && A=1 pulumi \\\n  up\n```\n",
            ["pulumi login", "A=1 pulumi up"],
        ),
        ("```console\n$ pulumi stack output x > y\n```\n", ["pulumi stack output x > y"]),
        ("`pulumi-language-python` and `a pulumi up --stack x`", []),
    ],
)
def test_commands_are_found_in_blocks_and_in_code_spans(text: str, found: list[str]) -> None:
    assert list(commands(text, of_markdown=True)) == found


def test_commands_are_found_in_comments_of_a_stack_file() -> None:
    text = "#   pulumi stack init a && pulumi up --stack a   in a minute\n  # or `pulumi cancel --stack a`\nkey: pulumi up -f\n"
    assert list(commands(text, of_markdown=False)) == [
        "pulumi stack init a",
        "pulumi up --stack a",
        "pulumi cancel --stack a",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_the_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    with world(tmp_path / "run") as here:
        for own, shipped in page.copies.items():
            shutil.copy(here.folder / f"Pulumi.{shipped}.yaml", here.folder / f"Pulumi.{own}.yaml")
        for stack, text in stack_files(ROOT / name).items():
            (here.folder / f"Pulumi.{stack}.yaml").write_text(text, encoding="utf-8")
        for stack, is_up in page.has.items():
            here.provide(stack, up=is_up)
        for step in page.steps:
            if not isinstance(step, Typed):
                continue
            for line in step.before:
                first = here.type(line, page.names)
                assert first.code == 0, first
            said = here.type(step.line, page.names, given=step.given)
            assert said.code == step.code, f"{step.line}\n{said.stdout}\n{said.stderr}"
            for pattern in step.says:
                assert re.search(pattern, said.stdout + said.stderr), f"{step.line}: no {pattern} in\n{said.stdout}"
            if step.look is not None:
                step.look(here, said)
