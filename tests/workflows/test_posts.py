"""What jobs write on GitHub, a pull request's comment and the issue about drift: the steps' own commands, with a `gh` that writes down
what it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.workflows.steps import needs_jq, run, stand_in, step

GH = """
printf '%s\\n' "$*" >>calls
if [[ "$*" == *--paginate* ]]; then cat found; fi
"""
MARKER = "<!-- vllm-fleet preview -->"


def posted(folder: Path, script: str, found: str = "", **environment: str) -> list[str]:
    """The calls of `gh`, the first of which looks for what is there and finds the numbers in `found`."""
    stand_in(folder / "bin", "gh", GH)
    (folder / "found").write_text(found)
    environment |= {"GITHUB_REPOSITORY": "acme/fleet", "RUN": "https://runs/1", "GH_TOKEN": "t"}
    done = run(script, cwd=folder, environment=environment, path=folder / "bin")
    assert done.returncode == 0, done.stderr
    return (folder / "calls").read_text().splitlines()


def comment(folder: Path, report: str, found: str = "") -> tuple[list[str], str]:
    """The calls and the text that is posted."""
    (folder / "report").mkdir()
    (folder / "report" / "preview.md").write_text(report)
    script = step("preview", "comment", "Post or update the comment")["run"]
    return posted(folder, script, found, NUMBER="7"), (folder / "body.md").read_text()


def test_the_first_report_is_posted_as_text_with_a_link_to_the_run(tmp_path: Path) -> None:
    report = "## 96 GPUs restart\n\n$(touch hacked) `touch hacked`\n"
    (question, call), body = comment(tmp_path, report)
    assert '.user.login == "github-actions[bot]"' in question
    assert f'startswith("{MARKER}")' in question
    assert call == "api --silent --method POST repos/acme/fleet/issues/7/comments --field body=@body.md"
    assert body.startswith(f"{MARKER}\n{report}")
    assert body.endswith("(https://runs/1)\n")
    assert not (tmp_path / "hacked").exists()


def test_a_later_report_replaces_the_first(tmp_path: Path) -> None:
    (_, call), _ = comment(tmp_path, "x", found="41\n52\n")
    assert call == "api --silent --method PATCH repos/acme/fleet/issues/comments/41 --field body=@body.md"


def test_a_report_beyond_githubs_limit_is_named_not_cut(tmp_path: Path) -> None:
    _, body = comment(tmp_path, "<details>\n" + "x" * 65_536)
    assert len(body) < 1_000
    assert "<details>" not in body
    assert "https://runs/1" in body


@needs_jq
@pytest.mark.parametrize(
    ("results", "checked", "issue", "call", "rows"),
    [
        pytest.param(
            {"dev": "unchanged", "spot": "changed"},
            "failure",
            "",
            "--method POST repos/acme/fleet/issues ",
            ["| dev | matches main |", "| spot | **differs from main** |", "https://runs/1"],
            id="drift opens an issue",
        ),
        pytest.param(
            {"dev": "changed", "spot": "changed"},
            "failure",
            "12\n",
            "--method PATCH repos/acme/fleet/issues/12 --field body=@body.md",
            ["| dev | **differs from main** |"],
            id="an open one is brought up to date",
        ),
        pytest.param(
            # A job that ran into its time limit leaves no result behind.
            {"dev": "unchanged"},
            "cancelled",
            "12\n",
            "--method PATCH repos/acme/fleet/issues/12 --field body=@body.md",
            ["| spot | **check failed** |"],
            id="a stack that was not reached keeps it open",
        ),
        pytest.param({"dev": "unchanged", "spot": "unchanged"}, "success", "12\n", "state=closed", [], id="closed"),
        pytest.param({"dev": "unchanged", "spot": "unchanged"}, "success", "", None, [], id="nothing to say"),
    ],
)
def test_the_issue_about_drift(
    tmp_path: Path, results: Mapping[str, str], checked: str, issue: str, call: str | None, rows: list[str]
) -> None:
    (tmp_path / "results").mkdir()
    for stack, result in results.items():
        (tmp_path / "results" / stack).write_text(f"{result}\n")
    script = step("drift", "report", "Open, update or close the issue")["run"]
    _, *calls = posted(tmp_path, script, issue, STACKS='["dev", "spot"]', CHECKED=checked)
    assert len(calls) == (call is not None)
    assert call is None or call in calls[0]
    for row in rows:
        assert row in (tmp_path / "body.md").read_text()
