"""The comment of a pull request: the step's own commands, with a `gh` that writes down what it was asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.workflows.steps import run, stand_in, step

GH = """
printf '%s\\n' "$*" >>calls
if [[ "$*" == *--paginate* ]]; then cat found; fi
"""
MARKER = "<!-- vllm-fleet preview -->"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stand_in(tmp_path / "bin", "gh", GH)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "preview.md").write_text("## 96 GPUs restart\n\n$(touch hacked) `touch hacked`\n")
    (tmp_path / "found").write_text("")
    return tmp_path


def comment(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"GITHUB_REPOSITORY": "acme/fleet", "NUMBER": "7", "RUN": "https://runs/1", "GH_TOKEN": "t"}
    script = step("preview", "comment", "Post or update the comment")["run"]
    done = run(script, cwd=folder, environment=environment, path=folder / "bin")
    assert done.returncode == 0, done.stderr
    return done


def test_the_first_report_is_posted_with_a_link_to_the_run(folder: Path) -> None:
    comment(folder)
    calls = (folder / "calls").read_text().splitlines()
    assert calls[1] == "api --silent --method POST repos/acme/fleet/issues/7/comments --field body=@body.md"
    body = (folder / "body.md").read_text()
    assert body.startswith(f"{MARKER}\n## 96 GPUs restart\n")
    assert body.endswith("(https://runs/1)\n")


def test_a_later_report_replaces_the_first(folder: Path) -> None:
    (folder / "found").write_text("41\n52\n")
    comment(folder)
    calls = (folder / "calls").read_text().splitlines()
    assert calls[1:] == ["api --silent --method PATCH repos/acme/fleet/issues/comments/41 --field body=@body.md"]


def test_only_our_own_comment_is_looked_for(folder: Path) -> None:
    comment(folder)
    question = (folder / "calls").read_text().splitlines()[0]
    assert '.user.login == "github-actions[bot]"' in question
    assert f'startswith("{MARKER}")' in question


def test_a_report_is_text_and_never_run(folder: Path) -> None:
    comment(folder)
    assert not (folder / "hacked").exists()
    assert "$(touch hacked)" in (folder / "body.md").read_text()


def test_a_report_beyond_githubs_limit_is_named_not_cut(folder: Path) -> None:
    (folder / "report" / "preview.md").write_text("<details>\n" + "x" * 65_536)
    comment(folder)
    body = (folder / "body.md").read_text()
    assert len(body) < 1_000
    assert "<details>" not in body
    assert "https://runs/1" in body
