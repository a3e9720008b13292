"""What holds for every component: its arguments are documented, it knows no stack file, its README tells it as it is."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from settings.sections.docstrings import field_docs
from tests.inventory import ROOT
from tests.support.rows import each_row

ROOMS = (ROOT / "infra", ROOT / "workloads")
FILES = [path for room in ROOMS for path in sorted(room.rglob("*.py")) if path.parent.name != "pods"]
_EXAMPLE = re.compile(r"\(\.\./(docs/examples/\w+/__main__\.py)\)")
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _args_classes() -> dict[type, Path]:
    """Every Args class, with its room."""
    found: dict[type, Path] = {}
    for path in FILES:
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        mine = (one for name, one in vars(module).items() if name.endswith("Args") and isinstance(one, type))
        found |= {one: ROOT / path.relative_to(ROOT).parts[0] for one in mine if one.__module__ == module.__name__}
    return found


@each_row("args", _args_classes())
def test_every_argument_has_a_docstring_of_its_own(args: type) -> None:
    assert {one.name for one in dataclasses.fields(args)} - field_docs(args).keys() == set()


@each_row("file", FILES)
def test_no_component_knows_a_stacks_settings(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported.isdisjoint({"settings.stack", "settings.load", "settings.stack_file", "settings.derived.figures"})


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_every_block_of_code_is_out_of_the_example_named_before_it(room: Path) -> None:
    text = (room / "README.md").read_text(encoding="utf-8")
    blocks = list(_PYTHON.finditer(text))
    assert blocks
    for block in blocks:
        *_, example = _EXAMPLE.findall(text[: block.start()])
        assert block[1] in (ROOT / example).read_text(encoding="utf-8"), block[1].splitlines()[0]


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_every_component_has_its_row_with_all_its_arguments_the_required_ones_marked(room: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", (room / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    required = dataclasses.MISSING
    assert dict(rows) == {
        args.__name__.removesuffix("Args"): ", ".join(
            f"**{one.name}**" if one.default is required and one.default_factory is required else one.name
            for one in dataclasses.fields(args)
        )
        for args, its_room in _args_classes().items()
        if its_room == room
    }
