"""The READMEs of the components: every component with its arguments, every block of code out of an example."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from tests.inventory import ROOT

READMES = [path for room in ("infra", "workloads") if (path := ROOT / room / "README.md").is_file()]
_EXAMPLE = re.compile(r"\(\.\./(examples/\w+/__main__\.py)\)")
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _args_classes(room: Path) -> dict[str, type]:
    """Every Args class of a room's modules, by its component's name."""
    found: dict[str, type] = {}
    for path in sorted(room.rglob("*.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, one in vars(module).items():
            if name.endswith("Args") and getattr(one, "__module__", "") == module.__name__:
                found[name.removesuffix("Args")] = one
    return found


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_every_block_of_code_is_out_of_the_example_named_before_it(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    blocks = list(_PYTHON.finditer(text))
    assert blocks
    for block in blocks:
        *_, example = _EXAMPLE.findall(text[: block.start()])
        assert block[1] in (ROOT / example).read_text(encoding="utf-8"), block[1].splitlines()[0]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_every_component_has_its_row_with_all_its_arguments_the_required_ones_marked(readme: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    required = dataclasses.MISSING
    assert dict(rows) == {
        component: ", ".join(
            f"**{one.name}**" if one.default is required and one.default_factory is required else one.name
            for one in dataclasses.fields(args)
        )
        for component, args in _args_classes(readme.parent).items()
    }
