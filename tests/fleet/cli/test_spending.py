"""`fleet spending`: what it says of a guard's sum, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facts.names import spending_namespace
from fleet.cli.exits import CommandError
from fleet.cli.spending import spending
from fleet.clients.kubectl import Kubectl
from tests.fleet.cli.command import ROOT
from tests.support.canaries import CANARIES, shown
from workloads.spending.total import Sum

HOME = spending_namespace("vllm-dev")

AT, FROM = 1.7e9, "2023-11-01T00:00:00Z"
STATE = json.loads(Sum(began=FROM, usd=120.0, owed=10.0, usd_per_hour=20.0, at=AT).text())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    with (tmp_path / "Pulumi.dev.yaml").open("a") as file:
        file.write("  vllm-fleet:spending: {limit: 1000, then: pause}\n")
    return tmp_path


def run(
    monkeypatch: pytest.MonkeyPatch, root: Path, text: str | None, *, paused: bool = False, ready: int | None = 1
) -> int:
    """The command's exit code on a cluster with these objects."""
    there: dict[tuple[str, str], Any] = {}
    if text is not None:
        there[HOME, "spending"] = {"data": {"state": text}}
    if ready is not None:
        there[HOME, "spending-guard"] = {"status": {"readyReplicas": ready}}
    if paused:
        there["vllm-dev", "spending-pause"] = {}
    # Objects of an editor of the servers' namespace.
    there["vllm-dev", "spending"] = {"data": {"state": json.dumps({**STATE, "usd": 7.0})}}
    there["vllm-dev", "spending-guard"] = {"status": {"readyReplicas": 1}}
    monkeypatch.setattr(Kubectl, "find", lambda self, _, name: there.get((self.namespace, name)))
    return spending(stack="dev", context="any", root=root)


@pytest.mark.parametrize(
    ("state", "paused", "ready", "code", "word"),
    [
        (STATE, False, 1, 0, "43.5 h"),
        ({**STATE, "reason": "limit"}, True, 1, 1, "{limit: more}"),
        ({**STATE, "reason": "until"}, True, 1, 1, "until"),
        ({**STATE, "unpriced": ["A4 node"]}, False, 1, 0, "A4 node"),
        (STATE, False, 0, 1, "not running"),
        (STATE, False, None, 1, "pulumi up --stack dev"),
        (None, False, 1, 1, "nothing counted"),
    ],
)
def test_it_says_what_is_spent_and_what_to_write(
    state: dict[str, Any] | None,
    paused: bool,
    ready: int | None,
    code: int,
    word: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = None if state is None else json.dumps(state)
    assert run(monkeypatch, root, text, paused=paused, ready=ready) == code
    assert word in capsys.readouterr().out


@pytest.mark.parametrize(("reason", "resumes"), [("limit", True), ("until", False)])
def test_a_limit_of_each_month_is_shown_as_such_and_ends_with_it(
    reason: str, resumes: bool, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = root / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("limit: 1000, then", "limit: 1000, every: month, then"))
    assert run(monkeypatch, root, json.dumps({**STATE, "since": "2023-11", "reason": reason}), paused=True) == 1
    said = capsys.readouterr().out
    assert ("of $1,000.00 a month" in said, "next month" in said) == (True, resumes)


@pytest.mark.parametrize("text", ["", "[1]", "{}}", CANARIES["jwt"], json.dumps({**STATE, "reason": CANARIES["pem"]})])
def test_a_damaged_sum_is_told_without_its_text(
    text: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, root, text) == 1
    told = capsys.readouterr().out
    assert f"ConfigMap {HOME}/spending is damaged" in told
    assert not shown(told)


def test_a_stack_without_a_limit_has_nothing_to_say() -> None:
    with pytest.raises(CommandError, match="vllm-fleet:spending"):
        spending(stack="dev", context="any", root=ROOT)
