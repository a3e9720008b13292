"""Every `pulumi` line of the guides, typed on the engine in the order of its page, and none forgotten."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guides.lines import ROOT, commands, pages, stack_files
from tests.guides.table import LEFT_OUT, PAGES
from tests.guides.world import world
from tests.support.rows import each_row

FOUND = pages()
OTHERS = ("test_first_up.py", "test_examples.py")
"""Tests that type lines which need more than this shell."""


def shape(line: str) -> str:
    """A line without what differs between pages: the stack, the project, the file of the output."""
    line = re.sub(r" --stack \S+| > \S+$|vllm-fleet:(?=\w+$)", "", line)
    return re.sub(r"(?<=stack init )[\w-]+|(?<=gcp:project )\S+|(?<=policy/config/)\w+", "NAME", line)


def typed_elsewhere() -> Iterator[str]:
    for name in OTHERS:
        tree = ast.parse((Path(__file__).parent / name).read_text(encoding="utf-8"))
        texts = (str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))
        yield from (text for text in texts if "pulumi " in text)


def test_every_line_of_every_page_is_typed_or_left_out_for_a_reason() -> None:
    typed = {shape(step.line) for page in PAGES.values() for step in page.steps} | {*map(shape, typed_elsewhere())}
    others = {line for lines in FOUND.values() for line in lines if shape(line) not in typed}
    assert others == LEFT_OUT.keys()


@each_row("page", PAGES)
def test_lines_are_typed_in_the_order_of_their_page(page: str) -> None:
    lines = iter(FOUND[page])
    assert [step.line for step in PAGES[page].steps if step.line not in lines] == []


MARKDOWN = """\
`pulumi-language-python`, `pulumi up` and `a pulumi up --stack x`, then `pulumi up --stack dev`.
```sh
pulumi login   # where
fleet doctor && A=1 pulumi \\
  up
$ pulumi stack output x > y
```
"""
STACK_FILE = """\
#   pulumi stack init a && pulumi up --stack a   in a minute
  # or `pulumi cancel --stack a`
key: pulumi up -f
"""


@each_row(
    ("text", "of_markdown", "found"),
    [
        (MARKDOWN, True, ["pulumi up --stack dev", "pulumi login", "A=1 pulumi up", "pulumi stack output x > y"]),
        (STACK_FILE, False, ["pulumi stack init a", "pulumi up --stack a", "pulumi cancel --stack a"]),
    ],
)
def test_commands_are_found_in_blocks_code_spans_and_comments(text: str, of_markdown: bool, found: list[str]) -> None:
    assert list(commands(text, of_markdown=of_markdown)) == found


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
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
            for line in step.before:
                first = here.type(line, page.names)
                assert first.code == 0, first
            said = here.type(step.line, page.names, given=step.given)
            assert said.code == 0, f"{step.line}\n{said.stdout}\n{said.stderr}"
            for pattern in step.says:
                assert re.search(pattern, said.stdout + said.stderr), f"{step.line}: no {pattern} in\n{said.stdout}"
            if step.look is not None:
                step.look(here, said)
