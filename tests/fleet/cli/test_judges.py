"""A pull request's own judge, through `fleet preview --against`: real repositories, real packs, every way to switch a rule off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.cli.command import SMALL_STACK, fleet, project
from tests.fleet.cli.test_against import git

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = project(tmp_path_factory.mktemp("judged") / "repository", blue=SMALL_STACK)
    (root / "__main__.py").write_text(PROGRAM.format(mtu=SMALL))
    (root / "policy" / "config").mkdir(parents=True)
    (root / "policy" / "PulumiPolicy.yaml").write_text("runtime: python\nversion: 1.0.0\n")
    (root / "policy" / "__main__.py").write_text(PACK)
    (root / "policy" / "config" / "blue.json").write_text('{"small-mtu": {"most": 1500}}')
    (root / ".github" / "workflows").mkdir(parents=True)
    (root / ".github" / "workflows" / "preview.yml").write_text("on: pull_request\n")
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "base")
    return root


@pytest.fixture
def clone(committed: Path) -> Iterator[Path]:
    yield committed
    git(committed, "reset", "--quiet", "--hard")
    git(committed, "clean", "--quiet", "-d", "--force")


def previewed(root: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = fleet("preview", "--stack", "blue", "--format", "json", *options, cwd=root)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def against(root: Path) -> tuple[int, dict[str, Any]]:
    return previewed(root, "--against", "main")


def changed(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["kind"], one["subject"]) for one in document["changes"]["judge"]}


def config(text: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        (root / "policy" / "config" / "blue.json").write_text(text)

    return edit


def pack(old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        assert PACK.count(old) == 1
        (root / "policy" / "__main__.py").write_text(PACK.replace(old, new))

    return edit


def without(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


def renamed(root: Path) -> None:
    pack('name="small-mtu"', 'name="smaller-mtu"')(root)
    config('{"smaller-mtu": {"most": 9000}}')(root)


LEVEL, LIMIT = ("level", "small-mtu"), ("setting", "small-mtu.most")
DOORS: dict[str, tuple[Callable[[Path], None], set[tuple[str, str]]]] = {
    "all disabled": (config('{"all": "disabled"}'), {LEVEL, ("level", "quiet"), LIMIT}),
    "a limit raised": (config('{"small-mtu": {"most": 1e300}}'), {LIMIT}),
    "no file": (without("policy/config/blue.json"), {LIMIT}),
    "disabled by the pack's own configuration": (
        pack('name="sizes",', 'name="sizes", initial_config={"small-mtu": EnforcementLevel.DISABLED},'),
        {LEVEL, ("pack", "policy/__main__.py")},
    ),
    "a rule emptied": (pack("if args.resource_type", "if 0 and args.resource_type"), {("pack", "policy/__main__.py")}),
    "a rule renamed": (
        renamed,
        {("policy-removed", "small-mtu"), ("policy-added", "smaller-mtu"), ("pack", "policy/__main__.py")},
    ),
    "no pack": (
        lambda root: shutil.rmtree(root / "policy"),
        {("pack-removed", "policy"), ("pack", "policy/PulumiPolicy.yaml"), ("pack", "policy/__main__.py")},
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_change_that_switches_off_its_judge_is_blocked_and_says_so(clone: Path, door: str) -> None:
    edit, expected = DOORS[door]
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    edit(clone)
    assert previewed(clone)[0] == 0, "alone, the checkout lets it pass"
    code, document = against(clone)
    assert code == 1
    assert changed(document) == expected
    (blocking,) = (one for one in document["violations"] if one["level"] == "mandatory")
    assert (blocking["policy"], blocking["judges"]) == ("small-mtu", ["base"])
    base, *head = document["plan"]["judges"]
    assert (base["side"], base["blocking"], base["asked"], base["settings"]) == (
        "base",
        1,
        2,
        {"small-mtu": {"most": 1500}},
    )
    assert [one["blocking"] for one in head] == ([] if door == "no pack" else [0])


def test_a_limit_that_is_raised_alone_passes_and_is_named(clone: Path) -> None:
    config('{"small-mtu": {"most": 9000}}')(clone)
    code, document = against(clone)
    assert code == 0
    (change,) = document["changes"]["judge"]
    assert (change["before"], change["after"], change["file"]) == (1500, 9000, "policy/config/blue.json")
    assert document["violations"] == []


def test_a_limit_that_is_lowered_below_what_is_there_blocks_before_the_next_update_does(clone: Path) -> None:
    config('{"small-mtu": {"most": 1000}}')(clone)
    code, document = against(clone)
    assert code == 1
    assert [one["judges"] for one in document["violations"]] == [["head"]]


def test_an_unchanged_judge_judges_once(clone: Path) -> None:
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    code, document = against(clone)
    assert code == 1
    assert [(one["side"], one["asked"]) for one in document["plan"]["judges"]] == [("head", 2)]
    assert document["changes"]["judge"] == []


def test_workflows_and_the_packs_manifest_are_part_of_the_comparison(clone: Path) -> None:
    (clone / ".github" / "workflows" / "preview.yml").write_text("on: push\n")
    (clone / "policy" / "PulumiPolicy.yaml").write_text("runtime: python\nmain: elsewhere\n")
    (clone / ".github" / "CODEOWNERS").write_text("* @acme/all\n")
    code, document = against(clone)
    assert code == 0
    assert changed(document) == {
        ("pack", "policy/PulumiPolicy.yaml"),
        ("workflow", ".github/workflows/preview.yml"),
        ("workflow", ".github/CODEOWNERS"),
    }


def test_a_committed_compiled_file_is_part_of_the_pack(clone: Path) -> None:
    """Python can run it instead of its source, which still reads as before."""
    cache = clone / "policy" / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "rules.cpython-311.pyc").write_bytes(b"x")
    assert changed(against(clone)[1]) == set()
    git(clone, "add", "--force", "policy/__pycache__/rules.cpython-311.pyc")
    assert changed(against(clone)[1]) == {("pack", "policy/__pycache__/rules.cpython-311.pyc")}
    git(clone, "rm", "--quiet", "--force", "--cached", "policy/__pycache__/rules.cpython-311.pyc")


def test_a_new_stack_is_judged_by_the_base_with_the_packs_own_levels(clone: Path) -> None:
    shutil.copy(clone / "Pulumi.blue.yaml", clone / "Pulumi.green.yaml")
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=9999))
    (clone / "policy" / "config" / "green.json").write_text('{"all": "disabled"}')
    done = fleet("preview", "--stack", "green", "--format", "json", "--against", "main", cwd=clone)
    assert done.returncode == 1
    base, head = json.loads(done.stdout)["plan"]["judges"]
    assert (base["fileMissing"], base["blocking"], base["asked"]) == (True, 1, 2)
    assert (head["asked"], len(head["disabled"])) == (0, 2)


@pytest.mark.parametrize(
    "text", ['{"small-mtu": {"enforcementLevel": 3}}', '{"all": "Disabled"}', '{"small-mtu": "off"}', ""]
)
def test_a_level_that_the_engine_refuses_is_refused(clone: Path, text: str) -> None:
    config(text)(clone)
    for options in ((), ("--against", "main")):
        done = fleet("preview", "--stack", "blue", *options, cwd=clone)
        assert done.returncode == 2
        assert "bug in fleet" not in done.stderr


def test_attributes_of_the_checkout_do_not_change_the_bases_files(clone: Path) -> None:
    """Git would write the base's pack in another encoding, or the checkout's, and call both unchanged."""
    (clone / "__main__.py").write_text(PROGRAM.format(mtu=LARGE))
    config('{"small-mtu": {"most": 9000}}')(clone)
    (clone / ".gitattributes").write_text("policy/__main__.py text working-tree-encoding=UTF-16\n")
    code, document = against(clone)
    assert code == 1
    assert ("pack", ".gitattributes") in changed(document)
    assert document["plan"]["judges"][0]["blocking"] == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config/blue.json", "{"),
        ("config/blue.json", '{"no-such": "advisory"}'),
        ("__main__.py", "raise SystemExit(3)\n"),
    ],
)
def test_a_base_that_cannot_judge_is_no_permission(clone: Path, file: str, text: str) -> None:
    (clone / "policy" / file).write_text(text)
    git(clone, "commit", "--quiet", "--all", "--message", "broken")
    git(clone, "branch", "--force", "broken")
    git(clone, "reset", "--quiet", "--hard", "main~1")
    git(clone, "branch", "--force", "sound")
    done = fleet("preview", "--stack", "blue", "--against", "broken", cwd=clone)
    git(clone, "reset", "--quiet", "--hard", "sound")
    assert done.returncode == 2
    assert "broken (" in done.stderr
    assert "bug in fleet" not in done.stderr


def test_every_format_names_what_is_switched_off_and_by_which_file(clone: Path) -> None:
    config('{"all": "disabled"}')(clone)
    for format_ in ("text", "markdown", "html"):
        for options in ((), ("--against", "main")):
            shown = fleet("preview", "--stack", "blue", "--format", format_, *options, cwd=clone, COLUMNS="400").stdout
            assert "no violations" not in shown.lower()
            assert "0 of 2 policies asked" in shown
            line = next(one for one in shown.splitlines() if "disabled by policy/config/blue.json" in one)
            assert {"small-mtu", "quiet"} <= set(line.replace(",", " ").replace("<", " ").split())
