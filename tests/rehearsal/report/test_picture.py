from __future__ import annotations

import pytest

from rehearsal.report.counts import COLUMNS, counts_of
from rehearsal.report.picture import MAX_LINES, MAX_ROWS, DrawnLane, Picture, Row, in_words, picture_of
from rehearsal.timeline import Moment
from tests.rehearsal.report.samples import bring_up, moment, preempt_four, scale_128, stretch


def drawn(*moments: Moment) -> Picture:
    picture = picture_of(moments)
    assert picture is not None
    return picture


def lane(picture: Picture, title: str) -> DrawnLane:
    return next(one for one in picture.lanes if one.title == title)


def row(found: DrawnLane, label: str) -> Row:
    return next(one for one in found.rows if one.label == label)


def test_nothing_happened_is_no_picture() -> None:
    assert picture_of(()) is None
    assert in_words(()) == ((), 0)


def test_positions_are_percent_of_the_drills_time_whenever_it_began() -> None:
    picture = drawn(stretch("pod", "a", "Ready", 1000, 1050), stretch("pod", "a", "ending", 1050, 1200))
    ready, ending = lane(picture, "Pods").rows[0].bars
    assert (ready.x, ready.width) == (0, 25)
    assert (ending.x, ending.width) == (25, 75)
    assert ready.title == "Ready: minute 0.0 to 0.8"


@pytest.mark.parametrize("minutes", [0.2, 3, 14, 40, 240, 3000])
def test_the_axis_has_few_round_minutes(minutes: float) -> None:
    ticks = drawn(stretch("pod", "a", "Ready", 0, minutes * 60)).ticks
    assert 2 <= len(ticks) <= 10
    assert ticks[0].label == "0"
    assert all(0 <= tick.x < 100 for tick in ticks)


def test_lanes_are_in_the_order_in_which_things_are_set_off() -> None:
    assert [one.title for one in drawn(*bring_up().moments).lanes] == [
        "pulumi up",
        "Google's stock of machines",
        "Machines",
        "Pods",
        "Disks",
    ]


def test_machines_that_stay_as_they_are_share_a_row() -> None:
    machines = lane(drawn(*preempt_four().moments), "Machines")
    assert machines.rows[0].label == "8 others"
    assert machines.rows[0].bars[0].text == "Ready, all 8 of them, all along"
    assert len(machines.rows) == 9
    assert machines.subjects == 16


def test_brief_resources_share_a_row_and_long_ones_keep_theirs() -> None:
    applied = lane(drawn(*bring_up().moments), "pulumi up")
    brief = row(applied, "14 brief ones")
    assert len(brief.marks) == 14
    assert all(mark.room == "none" for mark in brief.marks)
    assert row(applied, "Job/weights-qwen3-5-27b-fp8").bars[0].text == "created"


def test_what_went_wrong_is_never_brief() -> None:
    moments = [stretch("apply", f"ConfigMap/{number}", "created", number, number + 1, "good") for number in range(9)]
    bad = stretch("apply", "Job/x", "create failed", 5, 6, "bad")
    end = stretch("apply", "Deployment/y", "created", 0, 1000, "good")
    labels = [one.label for one in lane(drawn(*moments, bad, end), "pulumi up").rows]
    assert "Job/x" in labels
    assert "9 brief ones" in labels


def test_too_many_machines_become_counts_and_those_that_went_wrong_keep_rows() -> None:
    moments = [
        *scale_128().moments,
        moment("node", "gk3-spot-a4-highgpu-8g-0005", "preempted", 1000, "bad"),
    ]
    machines = lane(drawn(*moments), "Machines")
    assert machines.counts is not None
    assert machines.subjects == machines.counts.most_ready == machines.counts.highest == 128
    assert [one.label for one in machines.rows] == ["gk3-spot-a4-highgpu-8g-0005"]


def test_too_many_resources_keep_the_longest_and_share_the_rest() -> None:
    moments = [stretch("volume", f"disk-{number:02}", "made", 0, 100 + number * 10, "good") for number in range(40)]
    disks = lane(drawn(*moments), "Disks")
    assert len(disks.rows) == MAX_ROWS
    assert disks.rows[-1].label == "23 others"
    assert disks.rows[-2].label == "disk-39"


def test_words_stand_where_they_have_room() -> None:
    picture = drawn(
        stretch("pod", "long", "Ready", 0, 600, "good"),
        stretch("pod", "short", "Spot notice", 0, 3, "bad"),
        stretch("pod", "hidden", "told to stop: its machine goes", 580, 590, "bad"),
        moment("operator", "x", "kubectl drain", 590),
    )
    pods = lane(picture, "Pods")
    (long,), (short,), (hidden,) = (row(pods, name).bars for name in ("long", "short", "hidden"))
    assert (long.room, long.beside) == ("any", False)
    assert (short.room, short.beside) == ("any", True)
    assert hidden.room == "none"
    assert hidden.title.startswith("told to stop: its machine goes")
    (mark,) = lane(picture, "Operator").rows[0].marks
    assert (mark.before, mark.room) == (True, "any")


def test_marks_on_bars_carry_no_words() -> None:
    machines = lane(drawn(*preempt_four().moments), "Machines")
    assert {mark.room for one in machines.rows for mark in one.marks if one.bars} == {"none"}


def test_words_of_the_same_instant_share_a_line() -> None:
    lines, left_out = in_words(preempt_four().moments)
    assert left_out == 0
    assert any((line.subject, line.text) == ("4 of them", "preempted: 30 s notice") for line in lines)
    assert lines[0].minutes.startswith("0.0")


def test_too_many_lines_keep_what_went_wrong() -> None:
    moments = [moment("pod", f"pod-{number}", f"text {number}", number) for number in range(400)]
    moments.append(moment("pod", "last", "gone wrong", 10_000, "bad"))
    lines, left_out = in_words(moments)
    assert len(lines) == MAX_LINES
    assert left_out == 401 - MAX_LINES
    assert lines[-1].text == "gone wrong"


# Counts


def test_a_dip_shorter_than_a_column_is_seen() -> None:
    steady = [stretch("pod", f"p{number}", "Ready", 0, 10_000, "good") for number in range(9)]
    moments = [
        *steady,
        stretch("pod", "dips", "Ready", 0, 5000, "good"),
        stretch("pod", "dips", "not Ready", 5000, 5001, "bad"),
        stretch("pod", "dips", "Ready", 5001, 10_000, "good"),
    ]
    counts = counts_of(moments, 0, 10_000)
    assert (counts.most_ready, counts.least_ready, counts.last_ready, counts.highest) == (10, 9, 10, 10)
    assert [area.mood for area in counts.areas] == ["good", "bad"]


def test_what_lasts_to_the_end_is_there_in_the_last_column() -> None:
    for until in (7.3, 1000 / 3, 86_400.1):
        assert counts_of([stretch("pod", "a", "Ready", 0, until, "good")], 0, until).last_ready == 1


def test_a_state_that_follows_another_is_counted_once() -> None:
    moments = [stretch("pod", "a", "starting", 0, 50, "waiting"), stretch("pod", "a", "Ready", 50, 100, "good")]
    counts = counts_of(
        [*moments, moment("pod", "a", "a mark", 60), stretch("pod", "b", "empty", 70, 70, "bad")], 0, 100
    )
    assert counts.highest == 1
    assert {area.mood: area.most for area in counts.areas} == {"waiting": 1, "good": 1}


def test_the_outline_steps_where_the_count_does() -> None:
    moments = [stretch("pod", "a", "Ready", 0, 100, "good"), stretch("pod", "b", "Ready", 50, 100, "good")]
    (area,) = counts_of(moments, 0, 100).areas
    half = 1000 / COLUMNS * (COLUMNS / 2)
    assert area.path == f"M0 50H{half:g}V0H1000V100H0Z"
