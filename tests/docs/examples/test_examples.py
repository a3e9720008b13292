"""Small programs of somebody else's, made of this repository's components: recorded, reviewed, judged."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from fleet.preview import policy
from fleet.preview.record.recorder import ProgramError, Recording, record
from fleet.preview.record.values import paths_of_unknowns
from tests.docs.examples.recorded import (
    EXAMPLES,
    INVENTORIES,
    NAMES,
    STACK,
    configuration,
    example_inventory,
    recorded,
)
from tests.inventory import ROOT

OURS = {"infra", "workloads", "settings", "facts"}
"""What an example may import of this repository: the components, and the values that their arguments take."""


def _imports(name: str) -> set[str]:
    tree = ast.parse((EXAMPLES / name / "__main__.py").read_text(encoding="utf-8"))
    found = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_as_its_reviewed_inventory_says(name: str) -> None:
    reviewed = (INVENTORIES / f"{name}.yaml").read_text(encoding="utf-8")
    assert example_inventory(name) == reviewed, "run `make inventories`, read the diff, commit it with the change"


def test_every_inventory_belongs_to_an_example() -> None:
    assert sorted(path.stem for path in INVENTORIES.glob("*.yaml")) == NAMES


def test_the_policy_pack_holds_nothing_mandatory_against_an_example() -> None:
    with policy.start(ROOT / "policy", project="examples", stack=STACK) as pack:
        found = [(name, one) for name in NAMES for one in pack.judge(recorded(name))]
    assert [(name, one.policy, one.urn, one.message) for name, one in found if one.severity == "mandatory"] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_complains_and_no_value_stays_unknown_once_outputs_are_known(name: str) -> None:
    recording = recorded(name)
    assert [one.message for one in recording.diagnostics if one.severity == "error"] == []
    unknown = {one.urn: paths_of_unknowns(dict(one.inputs)) for one in recording.resources}
    assert {urn: paths for urn, paths in unknown.items() if paths} == {}


def test_a_wrong_argument_names_the_programs_line_and_what_to_write(tmp_path: Path) -> None:
    text = (EXAMPLES / "own_program" / "__main__.py").read_text(encoding="utf-8")
    wrong = text.replace("max_num_seqs=32", 'max_num_seqs="32"')
    assert wrong != text
    (tmp_path / "__main__.py").write_text(wrong, encoding="utf-8")
    with pytest.raises(ProgramError) as refused:
        record(tmp_path, project="support-bot", stack=STACK, config=configuration("own_program"), mode="known")
    first, second, *_ = refused.value.message.splitlines()
    assert re.fullmatch(r"__main__\.py:[0-9]+", first)
    assert second == '✗ Engine.max_num_seqs: "32"'


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_record_the_same_resources(name: str) -> None:
    def urns(recording: Recording) -> list[str]:
        return sorted(recording.by_urn)

    assert urns(recorded(name, "preview")) == urns(recorded(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_example_needs_the_components_and_nothing_else_of_this_repository(name: str) -> None:
    imported = _imports(name)
    packages = {one.partition(".")[0] for one in imported} - sys.stdlib_module_names
    assert {one for one in packages if (ROOT / one).is_dir()} <= OURS
    assert all(one.startswith("pulumi") for one in packages - OURS)
    assert not imported & {"settings.load", "settings.stack"}
