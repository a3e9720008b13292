"""`fleet preview` of several stacks, and its format for browsers, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fleet.cli.command import SMALL_STACK, fleet, project

pytestmark = pytest.mark.slow

REFUSED = SMALL_STACK.replace("mode: spot", "mode: on-demand")


def stacks(tmp_path: Path) -> Path:
    folder = project(tmp_path / "p", blue=SMALL_STACK, green=SMALL_STACK, red=REFUSED)
    (folder / "__main__.py").write_text("import pulumi\npulumi.export('stack', pulumi.get_stack())\n")
    return folder


def test_a_repeated_stack_gives_one_report_in_the_order_asked_for(tmp_path: Path) -> None:
    done = fleet("preview", "-s", "green", "-s", "blue", "-s", "green", "--format", "json", cwd=stacks(tmp_path))
    assert done.returncode == 0, done.stderr
    documents = json.loads(done.stdout)["stacks"]
    assert [one["stack"] for one in documents] == ["green", "blue"]
    assert [one["outputs"]["stack"] for one in documents] == ["green", "blue"]


def test_one_stack_is_reported_as_if_there_were_no_others(tmp_path: Path) -> None:
    folder = stacks(tmp_path)
    alone = json.loads(fleet("preview", "-s", "blue", "--format", "json", cwd=folder).stdout)
    several = json.loads(fleet("preview", "-s", "blue", "-s", "green", "--format", "json", cwd=folder).stdout)
    assert alone.pop("version") == several["version"]
    assert alone == several["stacks"][0]


def test_a_refused_stack_alone_is_told_in_the_files_that_were_asked_for(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("markdown", "json", "html", "text")}
    formats = [part for name, file in files.items() for part in ("--format", f"{name}={file}")]
    done = fleet("preview", "-s", "red", *formats, cwd=stacks(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "1 invalid setting" in done.stderr
    assert {name for name, file in files.items() if "on-demand" not in file.read_text()} == set()
    assert [one["stack"] for one in json.loads(files["json"].read_text())["refused"]] == ["red"]


def test_a_report_with_problems_that_goes_to_a_file_is_told_on_stderr(tmp_path: Path) -> None:
    folder, file = stacks(tmp_path), tmp_path / "two.html"
    done = fleet("preview", "-s", "blue", "-s", "red", "--format", f"html={file}", cwd=folder)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert str(file) in done.stderr
    assert "red" in done.stderr
    alone = fleet("preview", "-s", "blue", "--format", f"html={file}", cwd=folder)
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, "", "")
    (folder / "__main__.py").write_text("import pulumi\npulumi.log.error('the quota is 64 GPUs')\n")
    blocked = fleet("preview", "-s", "blue", "--format", f"html={file}", cwd=folder)
    assert (blocked.returncode, blocked.stdout, len(blocked.stderr.splitlines())) == (1, "", 1)
    assert "blocked" in blocked.stderr


def test_the_environments_stack_is_no_obstacle_to_all_stacks(tmp_path: Path) -> None:
    done = fleet("preview", "--all-stacks", "--format", "json", cwd=stacks(tmp_path), PULUMI_STACK="green")
    assert {one["stack"] for one in json.loads(done.stdout)["stacks"]} == {"blue", "green"}


def test_a_project_without_stacks_is_told(tmp_path: Path) -> None:
    done = fleet("preview", "--all-stacks", cwd=project(tmp_path / "p"))
    assert done.returncode == 2
    assert "no Pulumi.NAME.yaml in" in done.stderr


def test_manifests_of_several_stacks_lie_apart(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fleet("preview", "-s", "blue", "-s", "green", "--out", str(out), cwd=stacks(tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["blue", "green"]
