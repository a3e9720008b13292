"""`fleet preview` on the project's own stacks, as a user runs them."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.fleet.cli.command import SMALL_STACK, fleet, project
from tests.guides.test_stack_files import pasted
from tests.support.stacks import CODE


@cache
def preview(stack: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A preview that writes nothing; each is run once."""
    return fleet("preview", "--stack", stack, "--no-policy", *options)


def test_a_guests_stack_previews_without_a_cloud_as_text_and_as_a_document(tmp_path: Path) -> None:
    """A guest reads another stack's outputs. The texts of a preview are goldens; .ci/run previews every stack."""
    file, root = tmp_path / "preview.json", pasted(tmp_path, "docs/google-cloud.md", CODE)
    options = ("--no-policy", "--format", f"json={file}", "--format", "text")
    done = fleet("preview", "--stack", CODE, "--root", str(root), *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"vllm-fleet / {CODE}")
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["stack"] == CODE
    types = [one["type"] for one in document["resources"]]
    assert types.count("kubernetes:apps/v1:Deployment") == 1
    assert types.count("pulumi:pulumi:StackReference") == 1
    assert document["outputs"]["kubeconfig"] == "[secret]"


@pytest.mark.slow
def test_colour_is_for_terminals_that_want_it() -> None:
    coloured = re.compile(r"\x1b\[(?:\d+;)*3\d")
    assert "\x1b" not in preview("dev").stdout
    assert coloured.search(fleet("preview", "--stack", "dev", "--no-policy", FORCE_COLOR="1").stdout)
    wants_none = fleet("preview", "--stack", "dev", "--no-policy", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert not coloured.search(wants_none)


def test_a_warning_of_the_program_is_shown(tmp_path: Path) -> None:
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "__main__.py").write_text("import pulumi\npulumi.log.warn('quota is low')\n")
    done = fleet("preview", "--stack", "blue", "--no-policy", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "quota is low" in done.stdout


def test_encrypted_values_and_environments_are_told(tmp_path: Path) -> None:
    text = SMALL_STACK + "  vllm-fleet:hfToken:\n    secure: v1:abcdef\nenvironment:\n  - gcp/prod\n"
    folder = project(tmp_path, blue=text)
    (folder / "__main__.py").write_text(
        "import pulumi\npulumi.export('t', pulumi.Config().require_secret('hfToken'))\n"
    )
    done = fleet("preview", "--stack", "blue", "--no-policy", "--details", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "vllm-fleet:hfToken" in done.stdout
    assert "gcp/prod" in done.stdout
    assert "v1:abcdef" not in done.stdout


@pytest.mark.slow
def test_the_document_is_the_same_every_time() -> None:
    runs = [
        fleet("preview", "--stack", "gateway", "--no-policy", "--format", "json", PYTHONHASHSEED=seed).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != ""


def test_one_run_writes_several_formats(tmp_path: Path) -> None:
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "__main__.py").write_text("import pulumi\npulumi.export('a', 1)\n")
    page, document = tmp_path / "preview.html", tmp_path / "preview.json"
    command = ("preview", "--stack", "blue", "--no-policy")
    options = (*command, "--format", f"json={document}")
    both = fleet(*options, "--format", "markdown", cwd=folder)
    assert both.stdout == fleet(*command, "--format", "markdown", cwd=folder).stdout != ""
    assert json.loads(document.read_text())["stack"] == "blue"
    assert fleet(*options, "--format", f"text={page}", cwd=folder).stdout == ""
    assert page.read_text().startswith("vllm-fleet / blue")
    nowhere = fleet(*command, "--format", f"json={tmp_path}/none/preview.json", cwd=folder)
    assert (nowhere.returncode, f"{tmp_path}/none" in nowhere.stderr) == (2, True)
    twice = fleet(*options, "--format", "json", cwd=folder)
    assert (twice.returncode, twice.stdout) == (2, "")
