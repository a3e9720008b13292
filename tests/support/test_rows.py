from __future__ import annotations

import inspect

import pytest

from tests.support.rows import each_row


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @each_row("number, limit", [(1, 2), (3, 2), (4, 2)])
    def below(number: int, limit: int, folder: str) -> None:
        tried.append((folder, number))
        assert number < limit

    assert list(inspect.signature(below).parameters) == ["folder"]
    with pytest.raises(ExceptionGroup) as failed:
        below(folder="here")
    assert tried == [("here", 1), ("here", 3), ("here", 4)]
    notes = [one.__notes__ for one in failed.value.exceptions]
    assert notes == [["row: {'number': 3, 'limit': 2}"], ["row: {'number': 4, 'limit': 2}"]]


def test_what_should_have_been_raised_is_told_with_its_row() -> None:
    @each_row("text", ["1", "x"])
    def refused(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(AssertionError, match="'text': '1'"):
        refused()


def test_a_table_without_rows_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        each_row("one", [])
