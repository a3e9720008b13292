from __future__ import annotations

from fleet.report.rows import Row, Rows
from lab.report.counts import counts_of
from lab.report.picture import (
    MAX_LINES,
    MAX_ROWS,
    table_lines,
    timeline_of,
)
from lab.results.timeline import Moment
from tests.lab.report.samples import bring_up, moment, preempt_four, scale_128, stretch


def drawn(*moments: Moment) -> Rows:
    timeline = timeline_of("drill", moments)
    assert timeline is not None
    return timeline


def lanes(timeline: Rows) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for one in timeline.rows:
        if one.heading:
            found[one.heading] = []
        list(found.values())[-1].append(one)
    return found


def row(found: list[Row], label: str) -> Row:
    return next(one for one in found if one.label == label)


def test_nothing_happened_is_no_picture() -> None:
    assert timeline_of("drill", ()) is None
    assert table_lines(()) == ((), 0)


def test_positions_are_minutes_of_the_drill_whenever_it_began() -> None:
    timeline = drawn(stretch("pod", "a", "Ready", 1000, 1060), stretch("pod", "a", "ending", 1060, 1240))
    assert timeline.axis is not None
    assert (timeline.axis.low, timeline.axis.high) == (0, 4)
    ready, ending = timeline.rows[0].bars
    assert (ready.low, ready.high) == (0, 1)
    assert (ending.low, ending.high) == (1, 4)
    assert ready.title == "Ready: 0 s to 60 s"


def test_a_short_drill_has_ticks_in_seconds() -> None:
    timeline = drawn(stretch("pod", "a", "Ready", 1000, 1012))
    assert timeline.axis is not None
    assert timeline.axis.ticks is not None
    assert timeline.axis.ticks[-1] == (0.2, "12")


def test_lanes_are_in_the_order_in_which_things_are_set_off() -> None:
    assert list(lanes(drawn(*bring_up().moments))) == [
        "pulumi up",
        "Capacity",
        "Nodes",
        "Pods",
        "Disks",
    ]


def test_machines_that_stay_as_they_are_share_a_row() -> None:
    nodes = lanes(drawn(*preempt_four().moments))["Nodes"]
    assert nodes[0].label == "8 others"
    assert nodes[0].bars[0].words == "8 Ready throughout"
    assert len(nodes) == 9


def test_brief_resources_share_a_row_and_long_ones_keep_theirs() -> None:
    applied = lanes(drawn(*bring_up().moments))["pulumi up"]
    brief = row(applied, "14 others, brief")
    assert len(brief.dots) == 14
    assert not any(dot.words for dot in brief.dots)
    assert row(applied, "Job weights-qwen3-5-27b-fp8").bars[0].words == "created"


def test_what_went_wrong_is_never_brief() -> None:
    moments = [stretch("apply", f"ConfigMap/{number}", "created", number, number + 1, "good") for number in range(9)]
    bad = stretch("apply", "Job/x", "create failed", 5, 6, "bad")
    end = stretch("apply", "Deployment/y", "created", 0, 1000, "good")
    labels = [one.label for one in lanes(drawn(*moments, bad, end))["pulumi up"]]
    assert "Job x" in labels
    assert "9 others, brief" in labels


def test_too_many_machines_become_counts_and_those_that_went_wrong_keep_rows() -> None:
    moments = [
        *scale_128().moments,
        moment("node", "gk3-spot-a4-highgpu-8g-0005", "preempted", 1000, "bad"),
    ]
    counted, single = lanes(drawn(*moments))["Nodes"]
    assert counted.label == "128 in total, at most 128 Ready"
    assert counted.areas
    assert single.label == "gk3-spot-a4-highgpu-8g-0005"


def test_too_many_resources_keep_the_longest_and_share_the_rest() -> None:
    moments = [stretch("volume", f"disk-{number:02}", "made", 0, 100 + number * 10, "good") for number in range(40)]
    disks = lanes(drawn(*moments))["Disks"]
    assert len(disks) == MAX_ROWS
    assert disks[-1].label == "23 others"
    assert disks[-2].label == "disk-39"


def test_words_of_the_same_instant_share_a_line() -> None:
    lines, left_out = table_lines(preempt_four().moments)
    assert left_out == 0
    assert any((line.subject, line.text) == ("4 subjects", "preempted: 30 s notice") for line in lines)
    assert lines[0].time.startswith("0 s")


def test_too_many_lines_keep_what_went_wrong() -> None:
    moments = [moment("pod", f"pod-{number}", f"text {number}", number) for number in range(400)]
    moments.append(moment("pod", "last", "gone wrong", 10_000, "bad"))
    lines, left_out = table_lines(moments)
    assert len(lines) == MAX_LINES
    assert left_out == 401 - MAX_LINES
    assert lines[-1].text == "gone wrong"


def test_a_long_name_is_broken_and_not_cut() -> None:
    (row,) = drawn(
        stretch("pod", "gk3-vllm-inference-cluster-nap-748aaf2f-5bb55eb7-d40002", "Ready", 0, 600, "good")
    ).rows
    assert row.label == "gk3-vllm-inference-cluster- nap-748aaf2f-5bb55eb7-d40002"


def test_a_single_moment_has_no_timeline() -> None:
    assert timeline_of("stock-out", [moment("pod", "server", "gone", 0)]) is None


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
    assert (counts.most_ready, counts.least_ready) == (10, 9)
    assert [area.mood for area in counts.areas] == ["good", "bad"]


def test_what_lasts_to_the_end_is_there_in_the_last_column() -> None:
    for until in (7.3, 1000 / 3, 86_400.1):
        assert counts_of([stretch("pod", "a", "Ready", 0, until, "good")], 0, until).least_ready == 1


def test_a_state_that_follows_another_is_counted_once() -> None:
    moments = [stretch("pod", "a", "starting", 0, 50, "waiting"), stretch("pod", "a", "Ready", 50, 100, "good")]
    counts = counts_of(
        [*moments, moment("pod", "a", "a mark", 60), stretch("pod", "b", "empty", 70, 70, "bad")], 0, 100
    )
    assert all(max(share for _, share in area.outline) == 1 for area in counts.areas)
    assert {area.mood: area.most for area in counts.areas} == {"waiting": 1, "good": 1}


def test_the_outline_steps_where_the_count_does() -> None:
    moments = [stretch("pod", "a", "Ready", 0, 120, "good"), stretch("pod", "b", "Ready", 60, 120, "good")]
    (area,) = counts_of(moments, 0, 120).areas
    assert area.outline == ((0, 0.5), (1, 0.5), (1, 1), (2, 1), (2, 0), (0, 0))
