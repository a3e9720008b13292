"""`fleet new` as a user runs it: what it writes passes the check and the preview, and a wrong input writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facts import ledger
from settings.stack_file import read
from tests.fleet.cli.command import ROOT, SMALL_STACK, fleet, project, whole_project

NAMED = """\
  vllm-fleet:namespace: vllm-named
  vllm-fleet:cluster: {name: named, deletionProtection: false}
  vllm-fleet:hfToken: {secure: AAABAG}
encryptionsalt: v1:AAAA
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_project(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("source", ["smoke", "cud", "prod"])
def test_a_copy_of_a_shipped_stack_passes_the_check_with_the_same_limits(whole: Path, source: str) -> None:
    (whole / f"Pulumi.{source}.yaml").write_text((ROOT / f"Pulumi.{source}.yaml").read_text())
    stack = f"{source}-copy"
    done = fleet("new", stack, "--from", source, "--project", "my-project-1", cwd=whole)
    assert done.returncode == 0, done.stderr
    written = [f"Pulumi.{stack}.yaml", f"policy/config/{stack}.json"]
    assert done.stdout.splitlines()[:2] == written
    assert (whole / written[1]).read_text() == (ROOT / "policy" / "config" / f"{source}.json").read_text()
    text = (whole / written[0]).read_text()
    assert text.splitlines()[2].startswith(f"# {stack}: ")
    assert "placeholder" not in text
    checked = fleet("check", "--stack", stack, "--format", "json", cwd=whole)
    refused = {one["id"] for one in json.loads(checked.stdout)["findings"] if one["severity"] == "error"}
    assert refused == ({"placeholder"} if "@example.com" in text else set())
    (whole / written[0]).write_text(text.replace("@example.com", "@acme.com"))
    assert fleet("check", "--stack", stack, cwd=whole).returncode < 2


def test_a_copy_leaves_out_names_and_secrets_of_the_other_stack(tmp_path: Path) -> None:
    folder = project(tmp_path, named=SMALL_STACK + NAMED)
    done = fleet("new", "other", "--from", "named", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "policy/config/named.json" in done.stderr
    text = (folder / "Pulumi.other.yaml").read_text()
    for own in ("vllm-named", "name: named", "secure", "encryptionsalt"):
        assert own not in text
    assert "deletionProtection: false" in text
    assert "vllm-fleet:hfToken" in done.stdout
    assert read(folder, "other").config["gcp:project"] == "fleet-tests"
    assert fleet("check", "--stack", "other", cwd=folder).returncode == 0
    assert fleet("check", "--stack", "named", cwd=folder).returncode == 0


def test_a_model_of_ones_own_is_given_by_its_config(whole: Path) -> None:
    small = ledger.section("models", "models")["Qwen/Qwen3.5-4B"]["config"]
    (whole / "our-model.json").write_text(json.dumps(small))
    options = ("--machine", "g2-standard-12", "--model", "our-model.json", "--project", "my-project-1")
    made = fleet("new", "own", *options, cwd=whole)
    assert made.returncode == 0, made.stderr
    model = json.loads(read(whole, "own").config["vllm-fleet:model"])
    assert (model["id"], Path(model["config"]).name) == ("your-team/our-model", "our-model.json")
    checked = fleet("check", "--stack", "own", "--format", "json", cwd=whole)
    assert {one["id"] for one in json.loads(checked.stdout)["findings"] if one["severity"] == "error"} == {
        "placeholder"
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("new",), "--from"),
        (("new", "--from", "smal"), "small"),
        (("new", "--from", "small", "--machine", "g2-standard-12"), "--machine"),
        (("new", "--from", "small", "--zone", "us-central1-a"), "--zone"),
        (("small", "--from", "small"), "Pulumi.small.yaml"),
        (("limited", "--from", "small"), "policy/config/limited.json"),
        (("a b", "--from", "small"), "a b"),
        (("../up", "--machine", "g2-standard-12", "--model", "Qwen/Qwen3.5-4B"), "../up"),
        (("new", "--from", "small", "--project", "No"), "gcp:project"),
        (("new", "--machine", "g2-standard-13"), "g2-standard-12"),
        (("new", "--machine", "g2-standard-12", "--model", "qwen/qwen3.5-4"), "Qwen/Qwen3.5-4B"),
        (("new", "--machine", "g2-standard-12"), "--model names another"),
        (("new", "--machine", "g2-standard-12", "--model", "Qwen/Qwen3.5-9B"), "--machine g2-standard-24"),
        (("new", "--machine", "a4-highgpu-8g", "--capacity", "on-demand"), "spot"),
        (("new", "--machine", "a4-highgpu-8g", "--zone", "moon"), "zone"),
    ],
)
def test_a_wrong_input_is_named_and_writes_nothing(tmp_path: Path, options: tuple[str, ...], named: str) -> None:
    folder = project(tmp_path, small=SMALL_STACK)
    (folder / "policy" / "config").mkdir(parents=True)
    (folder / "policy" / "config" / "limited.json").write_text("{}")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = fleet("new", *options, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
