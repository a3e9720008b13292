"""Progress of a rehearsal: a line for each start, end and step; nothing with `--format json`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from fleet.report.live_line import LEAST_WIDTH
from fleet.report.words import format_elapsed
from lab.report.wording import MARKS, state_of, why_failed

if TYPE_CHECKING:
    from fleet.report.terminal import Paper
    from lab.results.clock import Clock
    from lab.results.result import DrillResult

LEAST_GAP_SECONDS: Final = 1.0
"""Steps that follow the previous line sooner are left out."""


class Shown:
    """Progress that is tracked but not shown. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._clock: Clock | None = None
        self.drill = ""
        """Name of the current drill or preparation."""
        self.number = self.total = 0
        """Number of the current drill, and of all; 0 before the first."""
        self.text = ""
        """The current step."""

    def drills(self, total: int) -> None:
        """Set the number of drills."""
        self.total = total

    def watch(self, clock: Clock | None) -> None:
        """Show this clock's simulated time; None shows none."""
        self._clock = clock

    def starts(self, name: str) -> None:
        """A drill or a preparation starts."""
        with self._lock:
            self.drill, self.text = name, ""
        self._on_start(name)

    def drill_starts(self, name: str) -> None:
        """The next drill starts."""
        self.number += 1
        self.starts(name)

    def step(self, text: str) -> None:
        """A step starts."""
        with self._lock:
            if text == self.text:
                return
            self.text = text
        self._on_step(text)

    def drill_ended(self, result: DrillResult) -> None:
        """The current drill has ended."""
        with self._lock:
            self.text = ""
        self._on_end(result)

    @property
    def simulated(self) -> str:
        """The simulated time, e.g. `1:02:05`; empty without a clock."""
        clock = self._clock
        if clock is None:
            return ""
        seconds = int(clock.now_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    @property
    def elapsed_seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self._began

    def _on_start(self, name: str) -> None:
        pass

    def _on_step(self, text: str) -> None:
        pass

    def _on_end(self, result: DrillResult) -> None:
        pass


class PlainLines(Shown):
    """One line per start, end and step."""

    def __init__(self, paper: Paper) -> None:
        super().__init__()
        self._paper = paper
        self._last = 0.0

    def _write(self, text: str) -> None:
        mark = f"[{self.elapsed_seconds:6.1f} s] "
        line = self._paper.writable(shortened(mark + text, max(LEAST_WIDTH, self._paper.width)))
        with self._lock:
            self._paper.stream.write(line + "\n")
            self._paper.stream.flush()

    def _on_start(self, name: str) -> None:
        self._last = 0.0
        self._write(f"{_counted(self)}{name}")

    def _on_step(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last >= LEAST_GAP_SECONDS:
            self._last = now
            simulated = f"simulated {self.simulated}  " if self.simulated else ""
            self._write(f"  {simulated}{text}")

    def _on_end(self, result: DrillResult) -> None:
        self._write(f"{_ended(result)}")


def shortened(text: str, width: int) -> str:
    """The text in one line of that width, with an ellipsis if cut."""
    line = " ".join(text.splitlines())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _counted(shown: Shown) -> str:
    return f"{shown.number}/{shown.total} " if shown.number and shown.total else ""


def _ended(result: DrillResult) -> str:
    state = state_of(result)
    rest = f"skipped, {result.skipped}" if result.skipped else f"{state} in {format_elapsed(result.wall_seconds)}"
    why = why_failed(result)
    return f"{MARKS[state]} {result.name}: {rest}{f': {why}' if why else ''}"


def shown(paper: Paper, *, quiet: bool = False) -> Shown:
    """Progress as lines on `paper`, or nothing if `quiet`."""
    return Shown() if quiet else PlainLines(paper)
