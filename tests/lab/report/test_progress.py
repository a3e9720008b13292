from __future__ import annotations

import io
from typing import Any

from fleet.report.terminal import Paper
from lab.report import progress
from lab.report.progress import Progress
from tests.lab.report.samples import bring_up, stock_out


def paper(stream: Any, *, width: int = 80) -> Paper:
    return Paper(stream=stream, width=width, styled=False)


def test_each_beginning_and_end_is_a_line() -> None:
    out = io.StringIO()
    live = Progress(paper(out))
    live.starts("control plane")
    live.drills(2)
    live.drill_starts("bring-up")
    live.drill_ended(bring_up())
    live.drill_starts("stock-out")
    live.drill_ended(stock_out())
    lines = [line.partition("] ")[2] for line in out.getvalue().splitlines()]
    assert lines == [
        "control plane",
        "1/2 bring-up",
        "✓ bring-up: passed in 43 s",
        "2/2 stock-out",
        "✗ stock-out: failed in 21 s: the message names a fix: 0/12 nodes are…",
    ]


def test_steps_that_follow_at_once_are_left_out_and_the_first_is_not(monkeypatch: Any) -> None:
    out = io.StringIO()
    live = Progress(paper(out))
    live.starts("bring-up")
    for number in range(50):
        live.step(f"{number} of 61 applied")
    monkeypatch.setattr(progress, "LEAST_GAP_SECONDS", 0.0)
    live.step("61 of 61 applied")
    live.step("61 of 61 applied")
    lines = [line.partition("] ")[2].strip() for line in out.getvalue().splitlines()]
    assert lines == ["bring-up", "0 of 61 applied", "61 of 61 applied"]
