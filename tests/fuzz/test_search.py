"""The search itself: it finds what is planted, keeps the smallest of each, ends in time and repeats itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz import damage
from tests.fuzz import search as searching
from tests.fuzz.search import Found, judge, search
from tests.fuzz.target import BrokenError, Target, require_text
from tests.support.canaries import CANARIES

NUMBERS = st.lists(st.integers(0, 100))


def found(tmp_path: Path, judged: Callable[[Any], bool], seed: int = 1, seconds: float = 0.6) -> Found:
    return search(Target(inputs=NUMBERS, judge=judged), seed, seconds, tmp_path / "trying", lambda _: None)


def two_defects(numbers: list[int]) -> bool:
    if len(numbers) >= 2:
        raise BrokenError("two")
    if numbers and numbers[0] > 40:
        raise BrokenError("large")
    return not numbers


def test_every_defect_is_found_with_its_smallest_input(tmp_path: Path) -> None:
    defects = found(tmp_path, two_defects, seconds=1).defects
    smallest = {name: json.loads(one.input) for name, one in defects.items()}
    assert {name: len(numbers) for name, numbers in smallest.items()} == {"two": 2, "large": 1}
    assert "BrokenError: large" in defects["large"].evidence


def test_the_same_seed_tries_the_same_and_another_does_not(tmp_path: Path) -> None:
    def tried(seed: int) -> list[Any]:
        seen: list[Any] = []
        target = Target(inputs=NUMBERS, judge=lambda value: bool(seen.append(value)))
        search(target, seed, 60.0, tmp_path / "trying", lambda _: None, most=20)
        return seen

    assert tried(1) == tried(1)
    assert tried(1) != tried(2)


def test_it_ends_in_time_and_holds_the_input_in_hand(tmp_path: Path) -> None:
    began = time.monotonic()

    def slow(_: list[int]) -> bool:
        assert (tmp_path / "trying").read_text().startswith("[")
        time.sleep(0.01)
        raise BrokenError("always")

    assert found(tmp_path, slow, seconds=0.3).defects.keys() == {"always"}
    assert time.monotonic() - began < 5


def test_an_input_that_takes_too_long_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "PER_INPUT_SECONDS", 0.05)

    def endless(_: Any) -> bool:
        while True:
            pass

    with pytest.raises(BrokenError, match="processor time"):
        judge(Target(inputs=NUMBERS, judge=endless), [])


@pytest.mark.parametrize("text", [*CANARIES.values(), "x" * 100_001])
def test_a_secret_or_a_value_in_full_breaks_a_promise(text: str) -> None:
    with pytest.raises(BrokenError):
        require_text(f"gcp:project: {text}", "a message")


@pytest.mark.parametrize("way", list(dict.fromkeys(damage._WAYS)))
def test_damage_leaves_the_document_as_it_was(way: Any) -> None:
    document = {"a": [1, {"b": "c"}], "d": None}
    kept = repr(document)
    for place in range(5):
        changed, places = damage.edited(document, [(place, way, "x", place)])
        assert repr(document) == kept
        assert len(places) == 1
        assert (changed != document) or way.__name__ == "_exchange"
