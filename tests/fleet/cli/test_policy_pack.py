"""Who judges a pull request, through `fleet preview --policy-pack`: real packs, and ways to switch a rule off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.cli.command import SMALL_STACK, fleet, project

PROGRAM = 'import pulumi\npulumi.CustomResource("gcp:compute/network:Network", "net", {{"mtu": {mtu}}})\n'
PACK = """\
from pulumi_policy import EnforcementLevel, PolicyConfigSchema, PolicyPack, ResourceValidationPolicy


def too_large(args, report):
    if args.resource_type.endswith("Network") and args.props["mtu"] > args.get_config()["most"]:
        report(f"mtu above {args.get_config()['most']:.0f}")


def quiet(args, report):
    pass


PolicyPack(
    name="sizes",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(
            name="small-mtu",
            description="Small.",
            validate=too_large,
            config_schema=PolicyConfigSchema(properties={"most": {"type": "number", "default": 9000}}),
        ),
        ResourceValidationPolicy(name="quiet", description="Says nothing.", validate=quiet),
    ],
)
"""
SMALL, LARGE = 1400, 8000


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = project(tmp_path / "clone", blue=SMALL_STACK)
    (root / "__main__.py").write_text(PROGRAM.format(mtu=SMALL))
    (root / "policy" / "config").mkdir(parents=True)
    (root / "policy" / "PulumiPolicy.yaml").write_text("runtime: python\nversion: 1.0.0\n")
    (root / "policy" / "__main__.py").write_text(PACK)
    (root / "policy" / "config" / "blue.json").write_text('{"small-mtu": {"most": 1500}}')
    return root


def previewed(root: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = fleet("preview", "--stack", "blue", "--format", "json", *options, cwd=root)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


DOORS: dict[str, Callable[[Path], object]] = {
    "all disabled": lambda root: (root / "policy" / "config" / "blue.json").write_text('{"all": "disabled"}'),
    "a limit raised": lambda root: (root / "policy" / "config" / "blue.json").write_text(
        '{"small-mtu": {"most": 1e300}}'
    ),
    "no file": lambda root: (root / "policy" / "config" / "blue.json").unlink(),
    "a rule emptied": lambda root: (root / "policy" / "__main__.py").write_text(
        PACK.replace("if args.res", "if 0 and args.res")
    ),
    "no pack": lambda root: shutil.rmtree(root / "policy"),
}


@pytest.mark.parametrize(("level", "code"), [("MANDATORY", 1), ("ADVISORY", 0)])
def test_the_projects_pack_judges_and_a_mandatory_violation_exits_with_1(clone: Path, level: str, code: int) -> None:
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    (clone / "policy" / "__main__.py").write_text(PACK.replace("MANDATORY", level))
    found, document = previewed(clone)
    assert (found, [(one["policy"], one["level"]) for one in document["violations"]]) == (
        code,
        [("small-mtu", level.lower())],
    )
    assert previewed(clone, "--no-policy")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_change_that_switches_off_its_judge_is_blocked_by_that_of_its_base(
    clone: Path, door: str, tmp_path: Path
) -> None:
    base = shutil.copytree(clone / "policy", tmp_path / "policy")
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    DOORS[door](clone)
    assert previewed(clone)[0] == 0, "alone, the checkout lets it pass"
    code, document = previewed(clone, "--policy-pack", str(base))
    assert (code, [one["policy"] for one in document["violations"]]) == (1, ["small-mtu"])
    (limit,) = (one["settings"] for one in document["plan"]["policies"] if one["given"])
    assert limit == {"most": 1500}


@pytest.mark.slow
def test_a_stack_without_limits_in_the_base_has_the_packs_own(clone: Path, tmp_path: Path) -> None:
    base = shutil.copytree(clone / "policy", tmp_path / "policy")
    (base / "config" / "blue.json").unlink()
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=9999))
    assert previewed(clone, "--policy-pack", str(base))[0] == 1
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    assert previewed(clone, "--policy-pack", str(base))[0] == 0


def test_a_folder_without_a_pack_is_refused(clone: Path, tmp_path: Path) -> None:
    done = fleet("preview", "--stack", "blue", "--policy-pack", str(tmp_path), cwd=clone)
    assert (done.returncode, "PulumiPolicy.yaml" in done.stderr) == (2, True)
