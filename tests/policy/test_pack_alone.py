"""The pack as others would adopt it: a copy of its folder, somewhere else, asked by the engine's protocol."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from facts.names import stack_names
from fleet.preview.policy import Violation, start
from fleet.preview.policy_config import PolicyError, read_config
from fleet.preview.record.recording import Recording
from rule import all_rules
from tests.inventory import ROOT
from tests.support.stacks import recorded_stack

pytestmark = pytest.mark.slow

PACK = ROOT / "policy"
CONFIGURED = ("dev", "spot", "cud", "gateway")


@pytest.fixture(scope="module")
def spot() -> Recording:
    return recorded_stack("spot")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make policy-pack` assembles it."""
    assembled = tmp_path_factory.mktemp("elsewhere") / "pack"
    subprocess.run(["make", "--silent", "policy-pack", f"PACK={assembled}"], cwd=ROOT, check=True)
    return assembled


def judged(pack: Path, recording: Recording, **config: object) -> tuple[Violation, ...]:
    with start(pack, project="vllm-fleet", stack="spot", config=config) as run:  # type: ignore[arg-type]
        return run.judge(recording)


def test_a_copy_of_the_folder_judges_like_the_original(spot: Recording, copy: Path) -> None:
    found = judged(copy, spot)
    assert found == judged(PACK, spot)
    assert {one.policy for one in found} == {"repeated-on-purpose"}
    assert not (copy / "config").exists()  # the stacks' levels are not the pack's


def test_the_copy_finds_what_is_wrong(spot: Recording, copy: Path) -> None:
    ceiling = {"maxUsdPerHour": 100, "enforcementLevel": "advisory"}
    (one,) = judged(copy, spot, **{"hourly-cost-above-ceiling": ceiling, "repeated-on-purpose": "disabled"})
    assert (one.policy, one.level) == ("hourly-cost-above-ceiling", "advisory")
    assert "$410.67" in one.message
    assert "above $100.00" in one.message


def test_the_pack_imports_the_facts_and_the_lessons_and_nothing_else(copy: Path) -> None:
    own = {path.stem for path in PACK.glob("*.py")} | {"rules", "facts"}
    allowed = own | {"pulumi", "grpc", "google", "yaml"} | set(sys.stdlib_module_names)
    assert not (copy / "settings").exists()
    for path in copy.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                assert name.partition(".")[0] in allowed, f"{path.relative_to(copy)} imports {name}"
                assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name}: relative imports fail here"


def test_the_packs_own_requirements_are_the_pinned_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {line.split("==")[0].lower(): line for line in project["dependencies"]}
    wanted = (PACK / "requirements.txt").read_text(encoding="utf-8").split()
    assert wanted == [pinned[line.split("==")[0].lower()] for line in wanted]


def test_a_stacks_config_file_reaches_its_rules(tmp_path: Path) -> None:
    assert read_config(tmp_path, "spot") == {}
    folder = tmp_path / "policy" / "config"
    folder.mkdir(parents=True)
    (folder / "spot.json").write_text('{"image-not-pinned": "advisory", "a": {"b": 1}}', encoding="utf-8")
    assert read_config(tmp_path, "spot") == {"image-not-pinned": "advisory", "a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "policy/config/spot.json is not JSON"),
        ("[]", "must be an object"),
        ('{"image-not-pinned": 3}', "a level or an object for each policy, unlike image-not-pinned"),
    ],
)
def test_a_config_file_that_says_nothing_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "policy" / "config").mkdir(parents=True)
    (tmp_path / "policy" / "config" / "spot.json").write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError, match=complaint):
        read_config(tmp_path, "spot")


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_no_stack_of_the_repository_breaks_a_mandatory_rule(stack: str) -> None:
    with start(PACK, project="vllm-fleet", stack=stack, config=read_config(ROOT, stack)) as run:
        assert [one for one in run.judge(recorded_stack(stack)) if one.level == "mandatory"] == []


@pytest.mark.parametrize("stack", CONFIGURED)
def test_the_stacks_config_files_name_rules_and_settings_that_exist(stack: str) -> None:
    rules = {one.name: one for one in all_rules()}
    config = read_config(ROOT, stack)
    assert set(config) <= set(rules)
    for name, values in config.items():
        assert isinstance(values, dict)
        assert set(values) <= {"enforcementLevel", *(one.name for one in rules[name].settings)}


def test_a_config_file_is_formatted() -> None:
    """One may be there before its stack: limits land first."""
    for path in (ROOT / "policy" / "config").glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=2) + "\n"
