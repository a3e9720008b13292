"""The list of drills, choosing from it, and what a drill writes down."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.drills.catalogue import DRILLS, chosen
from lab.results.result import RehearsalError

NAMES = [one.name for one in DRILLS]


def test_names_are_kebab_case() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in NAMES)


def test_the_bring_up_is_first_and_what_spends_the_stage_is_not() -> None:
    assert NAMES[0] == "bring-up"
    assert not DRILLS[0].spends_stage


def test_the_scenarios_are_these() -> None:
    assert sorted(NAMES) == sorted((
        "bring-up", "second-up", "killed-up", "restarted-api-server", "destroy", "drain", "preempt-four", "rolling-update",
        "over-quota", "stock-out", "pause", "to-zero", "late-compute-class",
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "hint"),
    [("drian", "drain?"), ("preempt", "preempt-four?"), ("Bring-Up", "bring-up?"), ("zzzz", "")],
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant_if_there_is_one(name: str, hint: str) -> None:
    with pytest.raises(RehearsalError) as caught:
        chosen(["bring-up", name])
    message = str(caught.value)
    assert message.startswith(f"--drill {name}: ")
    assert ("did you mean" in message) is bool(hint)
    assert hint in message
    assert "fleet rehearse --list" in message


def test_ci_plays_every_drill() -> None:
    root = Path(__file__).parents[3]
    played = set(re.findall(r"--drill ([a-z-]+)", (root / ".ci/run").read_text(encoding="utf-8")))
    clusters = sorted(Path(__file__).parent.glob("test_*on_a_cluster.py"))
    slow_tests = "".join(path.read_text(encoding="utf-8") for path in clusters)
    played |= {name for name in NAMES if f'"{name}"' in slow_tests}
    assert set(NAMES) <= played
