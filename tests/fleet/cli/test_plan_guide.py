"""docs/plan.md shows what the command prints, and names the document's keys."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.fleet.cli.command import ROOT, fleet

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ fleet (plan [^\n]*)\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)


def test_there_is_an_example_of_every_goal() -> None:
    commands = " ".join(command for command, _ in EXAMPLES)
    for goal in ("--documents", "--users", "--requests-per-second", "--tokens-per-second", "--usd-per-hour"):
        assert goal in commands


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_prints_what_the_guide_shows(command: str, shown: str) -> None:
    done = fleet(*shlex.split(command), COLUMNS="80")
    printed = done.stdout + done.stderr
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        assert part.strip("\n") in printed


def test_the_keys_of_the_document_are_those_described() -> None:
    document = json.loads(fleet("plan", "--users", "16000", "--machine", "a4-highgpu-8g", "--format", "json").stdout)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE, re.MULTILINE))
    assert set(rows) == set(document)
    assert _named(rows["question"]) == set(document["question"])
    assert _named(rows["plan"]) == set(document["plan"])


def _named(row: str) -> set[str]:
    return {key for key in re.findall(r"`([\w-]+)`", row) if not key.startswith("-")}
