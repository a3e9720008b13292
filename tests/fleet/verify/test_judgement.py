"""Which answers are garbage, and which differences rounding explains."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.verify.judgement import LOOPS, NEAR_TIE, Answer, answer_of, difference, unsound
from tests.support.rows import each_row


def _answer(*places: tuple[str, dict[str, float]]) -> Answer:
    return Answer(
        " ".join(token for token, _ in places), tuple(token for token, _ in places), tuple(p for _, p in places)
    )


SAME = ("a", {"a": -0.1, "b": -3.0})


def _pair(mine: dict[str, float], its: dict[str, float]) -> tuple[Answer, Answer]:
    """Two answers that take another token at the second place, with what each held of the two."""
    return _answer(SAME, ("x", mine), ("p", {"p": -0.1})), _answer(SAME, ("y", its), ("q", {"q": -0.1}))


@each_row(
    "mine, its, differs",
    [
        ({"x": -0.7, "y": -0.7}, {"x": -0.7, "y": -0.7}, False),
        ({"x": -0.7, "y": -0.825}, {"x": -0.8, "y": -0.7}, False),
        ({"x": -0.5, "y": -0.5 - NEAR_TIE}, {"x": -0.7, "y": -0.7}, False),
        ({"x": -0.5, "y": -1.125}, {"x": -0.7, "y": -0.7}, True),
        ({"x": -0.7, "y": -0.7}, {"x": -2.0, "y": -0.2}, True),
        ({"x": -0.7, "z": -0.8}, {"x": -0.7, "y": -0.7}, True),
    ],
)
def test_a_difference_counts_unless_its_first_place_is_a_near_tie(
    mine: dict[str, float], its: dict[str, float], differs: bool
) -> None:
    one, other = _pair(mine, its)
    assert (bool(difference(one, other)), bool(difference(other, one))) == (differs, differs)


def test_equal_answers_do_not_differ_and_a_shorter_one_does() -> None:
    assert difference(_answer(SAME, SAME), _answer(SAME, SAME)) == ""
    assert difference(_answer(SAME), _answer(SAME, SAME)) != ""


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (" \n", ["1"]),
        ("!" * 12, ["0"] * 12),
        ("ab" * LOOPS, ["a", "b"] * LOOPS),
        ("good \N{REPLACEMENT CHARACTER}\x00\x01 word", ["1", "2"]),
    ],
)
def test_garbage_is_unsound(text: str, items: list[str]) -> None:
    assert unsound(text, items) != ""


@pytest.mark.parametrize("text", [" 4711.", "日本の首都は東京\N{REPLACEMENT CHARACTER}", "a b c d e f"])
def test_text_is_sound(text: str) -> None:
    assert unsound(text, text.split()) == ""


@pytest.mark.parametrize("body", [None, "text", {}, {"choices": []}, {"choices": [{"text": "x", "logprobs": None}]}])
def test_what_reports_no_tokens_is_no_answer(body: Any) -> None:
    assert answer_of(body) is None
