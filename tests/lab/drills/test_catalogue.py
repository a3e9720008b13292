"""The list of drills, choosing from it, and what a drill writes down."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.drills.catalogue import DRILLS, chosen
from lab.results.result import RehearsalError

NAMES = [one.name for one in DRILLS]


def test_names_are_unique_and_kebab_case() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in NAMES)


def test_the_bring_up_is_first_and_what_spends_the_stage_is_not() -> None:
    assert NAMES[0] == "bring-up"
    assert not DRILLS[0].spends_stage


def test_the_scenarios_are_these() -> None:
    assert set(NAMES) == {
        "bring-up", "second-up", "killed-up", "restarted-api-server", "destroy", "drain", "preempt-four", "rolling-update",
        "over-quota", "stock-out", "pause", "to-zero", "late-compute-class",
    }  # fmt: skip


def test_no_names_choose_every_drill() -> None:
    assert chosen(()) == DRILLS


def test_names_choose_in_the_catalogues_order_each_once() -> None:
    assert [one.name for one in chosen(["drain", "bring-up", "drain"])] == ["bring-up", "drain"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("drian", "did you mean drain?"), ("preempt", "did you mean preempt-"), ("Bring-Up", "bring-up?")],
)
def test_a_near_miss_is_answered_with_the_name_that_was_meant(name: str, hint: str) -> None:
    with pytest.raises(RehearsalError) as caught:
        chosen(["bring-up", name])
    message = str(caught.value)
    assert message.startswith(f"--drill {name}: ")
    assert hint in message
    assert "fleet rehearse --list" in message


def test_a_name_far_from_any_gets_no_guess() -> None:
    with pytest.raises(RehearsalError) as caught:
        chosen(["zzzz"])
    assert str(caught.value).startswith("--drill zzzz: ")
    assert "did you mean" not in str(caught.value)
    assert "fleet rehearse --list" in str(caught.value)


def test_ci_plays_every_drill() -> None:
    root = Path(__file__).parents[3]
    played = set(re.findall(r"--drill ([a-z-]+)", (root / ".ci/run").read_text(encoding="utf-8")))
    clusters = sorted(Path(__file__).parent.glob("test_*on_a_cluster.py"))
    slow_tests = "".join(path.read_text(encoding="utf-8") for path in clusters)
    played |= {name for name in NAMES if f'"{name}"' in slow_tests}
    assert set(NAMES) <= played
