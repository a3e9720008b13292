"""The issue about drift: the step's own commands, with a `gh` that writes down what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.workflows.steps import needs_jq, run, stand_in, step

GH = """
printf '%s\\n' "$*" >>calls
if [[ "$*" == *--paginate* ]]; then cat found; fi
"""

pytestmark = needs_jq


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stand_in(tmp_path / "bin", "gh", GH)
    (tmp_path / "found").write_text("")
    return tmp_path


def report(folder: Path, results: Mapping[str, str], *, checked: str) -> list[str]:
    (folder / "results").mkdir()
    for stack, result in results.items():
        (folder / "results" / stack).write_text(f"{result}\n")
    environment = {
        "GITHUB_REPOSITORY": "acme/fleet",
        "RUN": "https://runs/1",
        "STACKS": '["dev", "spot"]',
        "CHECKED": checked,
        "GH_TOKEN": "t",
    }
    script = step("drift", "report", "Open, update or close the issue")["run"]
    done = run(script, cwd=folder, environment=environment, path=folder / "bin")
    assert done.returncode == 0, done.stderr
    return (folder / "calls").read_text().splitlines()[1:]


def test_drift_opens_an_issue_that_says_which_stack(folder: Path) -> None:
    (call,) = report(folder, {"dev": "unchanged", "spot": "changed"}, checked="failure")
    assert call.startswith("api --silent --method POST repos/acme/fleet/issues ")
    body = (folder / "body.md").read_text()
    assert "| dev | matches main |" in body
    assert "| spot | **differs from main** |" in body
    assert "https://runs/1" in body


def test_an_open_issue_is_brought_up_to_date(folder: Path) -> None:
    (folder / "found").write_text("12\n")
    (call,) = report(folder, {"dev": "changed", "spot": "changed"}, checked="failure")
    assert call == "api --silent --method PATCH repos/acme/fleet/issues/12 --field body=@body.md"


def test_the_issue_is_closed_when_nothing_differs(folder: Path) -> None:
    (folder / "found").write_text("12\n")
    (call,) = report(folder, {"dev": "unchanged", "spot": "unchanged"}, checked="success")
    assert call.endswith("--raw-field state=closed")


def test_no_drift_and_no_issue_is_silence(folder: Path) -> None:
    assert report(folder, {"dev": "unchanged", "spot": "unchanged"}, checked="success") == []


def test_a_stack_that_was_not_reached_keeps_the_issue_open(folder: Path) -> None:
    """A job that ran into its time limit leaves no result behind."""
    (folder / "found").write_text("12\n")
    (call,) = report(folder, {"dev": "unchanged"}, checked="cancelled")
    assert "closed" not in call
    assert "| spot | **check failed** |" in (folder / "body.md").read_text()
