from __future__ import annotations

import io
import threading
from typing import Any

from fleet.report.terminal import Paper
from lab.report import progress
from lab.report.progress import PlainLines, Shown, shown
from lab.results.clock import Clock
from tests.lab.report.samples import bring_up, stock_out


def paper(stream: Any, *, width: int = 80) -> Paper:
    return Paper(stream=stream, width=width, styled=False)


def test_in_a_log_each_beginning_and_end_is_a_line() -> None:
    out = io.StringIO()
    live = shown(paper(out))
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


def test_in_a_log_steps_that_follow_at_once_are_left_out_and_the_first_is_not(monkeypatch: Any) -> None:
    out = io.StringIO()
    live = PlainLines(paper(out))
    live.drill_starts("bring-up")
    for number in range(50):
        live.step(f"{number} of 61 applied")
    monkeypatch.setattr(progress, "LEAST_GAP_SECONDS", 0.0)
    live.watch(Clock(60.0))
    live.step("61 of 61 applied")
    live.step("61 of 61 applied")
    lines = [line.partition("] ")[2].strip() for line in out.getvalue().splitlines()]
    assert lines == ["bring-up", "0 of 61 applied", "simulated 0:00:00  61 of 61 applied"]


def test_a_line_fits_the_log() -> None:
    out = io.StringIO()
    PlainLines(paper(out, width=60)).starts("x" * 300)
    assert len(out.getvalue()) == 61


def test_for_a_machine_nothing_is_printed() -> None:
    out = io.StringIO()
    live = shown(paper(out), quiet=True)
    live.drill_starts("bring-up")
    live.step("a step")
    live.drill_ended(bring_up())
    assert type(live) is Shown
    assert out.getvalue() == ""
    assert live.number == 1


def test_many_threads_may_tell_at_once() -> None:
    out = io.StringIO()
    live = PlainLines(paper(out, width=200))
    threads = [threading.Thread(target=live.starts, args=(f"drill {number}" * 5,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 20
    assert all(line.startswith("[") for line in lines)


def test_simulated_time_reads_as_hours() -> None:
    class Fixed(Clock):
        def now_seconds(self) -> float:
            return 3725.9

    live = Shown()
    assert live.simulated == ""
    live.watch(Fixed())
    assert live.simulated == "1:02:05"
