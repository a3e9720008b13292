"""`fleet spending`: what it says of a guard's sum, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.exits import CommandError
from fleet.cli.spending import spending
from fleet.clients.kubectl import Kubectl
from tests.fleet.cli.command import ROOT

SUM = {"usd": 120.0, "owed": 10.0, "usdPerHour": 20.0, "at": 1.8e9, "from": "2027-01-01T00:00:00Z", "reason": ""}
STATE = {**SUM, "unknown": "", "unpriced": []}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    with (tmp_path / "Pulumi.dev.yaml").open("a") as file:
        file.write("  vllm-fleet:spending: {limit: 1000, then: pause}\n")
    return tmp_path


def objects(state: dict[str, Any] | None, *, paused: bool, ready: int) -> dict[str, Any]:
    data = {} if state is None else {"data": {"state": json.dumps(state)}}
    found: dict[str, Any] = {"spending": data, "spending-guard": {"status": {"readyReplicas": ready}}}
    return {**found, "spending-pause": {}} if paused else found


@pytest.mark.parametrize(
    ("state", "paused", "ready", "code", "word"),
    [
        (STATE, False, 1, 0, "43.5 h"),
        ({**STATE, "reason": "limit"}, True, 1, 1, "{limit: more}"),
        ({**STATE, "reason": "until"}, True, 1, 1, "until"),
        ({**STATE, "unpriced": ["A4 node"]}, False, 1, 0, "A4 node"),
        (STATE, False, 0, 1, "not running"),
        (None, False, 1, 1, "nothing counted"),
    ],
)
def test_it_says_what_is_spent_and_what_to_write(
    state: dict[str, Any] | None,
    paused: bool,
    ready: int,
    code: int,
    word: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = objects(state, paused=paused, ready=ready)
    monkeypatch.setattr(Kubectl, "get", lambda _, __, name: there[name])
    monkeypatch.setattr(Kubectl, "find", lambda _, __, name: there.get(name))
    assert spending(stack="dev", context="any", root=root) == code
    assert word in capsys.readouterr().out


def test_a_stack_without_a_limit_has_nothing_to_say() -> None:
    with pytest.raises(CommandError, match="vllm-fleet:spending"):
        spending(stack="dev", context="any", root=ROOT)
