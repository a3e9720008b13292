"""Numbers, values and fates as every report prints them."""

from __future__ import annotations

from fleet.preview.compare.changes import Delta
from fleet.preview.compare.wording import (
    format_after,
    format_before,
    format_difference,
    format_fate,
    format_sides,
    format_summary,
    format_value,
    is_text,
    lines_that_differ,
)
from tests.fleet.preview.sample_changes import change, edited, sample_changes
from tests.support.rows import each_row


def delta(before: float | None, after: float | None, unit: str = "", **fields: bool) -> Delta:
    return Delta(id="x", label="x", unit=unit, before=before, after=after, **fields)


@each_row(
    ("given", "words"),
    [
        (delta(12, 8), ("12", "8", "-4 (-33 %)")),
        (delta(392.25, 261.8, "USD an hour"), ("$392.25", "$261.80", "-$130.45 (-33 %)")),
        (delta(0.0987, 0.0983, "USD per million tokens"), ("$0.099", "$0.098", "-$0.0004")),
        (delta(0, 12), ("0", "12", "+12")),
        (delta(1_103_941, None, "tok/s"), ("1,103,941", "not published", "")),
        (delta(5, 5), ("5", "5", "same")),
        (delta(None, None), ("unknown", "unknown", "")),
        (delta(1.5, 3, "GiB"), ("1.50 GiB", "3 GiB", "+1.50 GiB (+100 %)")),
    ],
)
def test_a_number_before_and_after(given: Delta, words: tuple[str, str, str]) -> None:
    assert (format_before(given), format_after(given), format_difference(given)) == words


def test_a_lower_bound_says_so() -> None:
    assert format_before(delta(5, 6, "USD an hour", before_at_least=True)) == "at least $5.00"
    assert format_after(delta(5, 6, "USD an hour", before_at_least=True)) == "$6.00"


@each_row(
    ("value", "words"),
    [
        ("plain", "plain"),
        ("", '""'),
        (" padded", '" padded"'),
        ("two\nlines", '"two\\nlines"'),
        (True, "true"),
        (None, "not set"),
        (12, "12"),
        ({"a": ["b"]}, '{"a": ["b"]}'),
        ("größer", "größer"),
    ],
)
def test_a_value_on_one_line(value: object, words: str) -> None:
    assert format_value(value) == words


def test_sides_are_cut_where_they_part_and_fit() -> None:
    before, after = format_sides(edited("p", "a" * 500 + "1" + "b" * 500, "a" * 500 + "2" + "b" * 500), 60)
    assert len(before) == len(after) == 60
    assert "a1b" in before
    assert "a2b" in after
    assert before[0] == before[-1] == "…"


def test_one_side_that_goes_on_where_the_other_ends_is_shown_at_its_end() -> None:
    before, after = format_sides(edited("p", "a" * 200, "a" * 200 + "TAIL"), 40)
    assert after.endswith("TAIL")
    assert len(before) <= 40


def test_an_added_and_a_removed_property_have_one_side() -> None:
    assert format_sides(edited("p", None, 1, "added"), 40) == ("", "1")
    assert format_sides(edited("p", 1, None, "removed"), 40) == ("1", "")


def test_texts_of_lines_are_compared_by_line() -> None:
    script = edited("p", "a\nb\nc\n", "a\nB\nc\n")
    assert is_text(script)
    assert list(lines_that_differ(script, 10)) == [(" ", "a"), ("-", "b"), ("+", "B"), (" ", "c")]
    assert list(lines_that_differ(script, 2))[-1] == ("…", "2 more lines")
    assert not is_text(edited("p", "a", "b"))
    assert not is_text(edited("p", None, "a\nb", "added"))


def test_lines_that_are_left_out_between_two_differences_leave_a_mark() -> None:
    script = edited("p", "a\n1\n2\n3\n4\n5\nb\n", "A\n1\n2\n3\n4\n5\nB\n")
    assert [text for _, text in lines_that_differ(script, 10)] == ["a", "A", "1", "…", "5", "b", "B"]


def test_a_line_that_looks_like_the_head_of_a_diff_is_kept() -> None:
    script = edited("p", "a\n-- x\n", "a\n++ y\n")
    assert list(lines_that_differ(script, 10)) == [(" ", "a"), ("-", "-- x"), ("+", "++ y")]


def test_the_summary_names_only_what_there_is() -> None:
    counts = [int(part.split()[0]) for part in format_summary(sample_changes()).split(", ")]
    assert counts == [1, 6, 2, 1, 4]
    assert format_summary(sample_changes(resources=())) == ""


def test_a_move_by_an_alias_is_told() -> None:
    moved = change("t:t:T", "new", "", "same", old_urn="urn:x::old")
    assert format_fate(moved).startswith("was old, ")
    below = change("t:t:T", "same", "", "update", old_urn="urn:other-parent::same")
    assert format_fate(below) == "kept by its alias"
