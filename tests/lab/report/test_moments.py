from __future__ import annotations

from lab.report.moments import MAX_LINES, table_lines
from tests.lab.report.samples import moment, preempt_four


def test_nothing_happened_has_no_line() -> None:
    assert table_lines(()) == ((), 0)


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
