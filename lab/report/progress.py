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
    from lab.results.result import DrillResult

LEAST_GAP_SECONDS: Final = 1.0
"""Steps that follow the previous line sooner are left out."""


class Progress:
    """Lines on `paper`, or none without one. Thread-safe."""

    def __init__(self, paper: Paper | None) -> None:
        self._paper = paper
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._last = 0.0
        self._step = ""
        self._number = self._total = 0

    def drills(self, total: int) -> None:
        """Set the number of drills."""
        self._total = total

    def starts(self, name: str) -> None:
        """A drill or a preparation starts."""
        with self._lock:
            self._step, self._last = "", 0.0
        self._write(name)

    def drill_starts(self, name: str) -> None:
        """The next drill starts."""
        self._number += 1
        self.starts(f"{self._number}/{self._total} {name}")

    def step(self, text: str) -> None:
        """A step starts."""
        now = time.monotonic()
        with self._lock:
            if text == self._step or now - self._last < LEAST_GAP_SECONDS:
                return
            self._step, self._last = text, now
        self._write(f"  {text}")

    def drill_ended(self, result: DrillResult) -> None:
        """The current drill has ended."""
        state = state_of(result)
        rest = f"skipped, {result.skipped}" if result.skipped else f"{state} in {format_elapsed(result.wall_seconds)}"
        why = why_failed(result)
        self._write(f"{MARKS[state]} {result.name}: {rest}{f': {why}' if why else ''}")

    def _write(self, text: str) -> None:
        if self._paper is None:
            return
        line = f"[{time.monotonic() - self._began:6.1f} s] {text}"
        with self._lock:
            self._paper.stream.write(shortened(line, max(LEAST_WIDTH, self._paper.width)) + "\n")
            self._paper.stream.flush()


def shortened(text: str, width: int) -> str:
    """The text in one line of that width, with an ellipsis if cut."""
    line = " ".join(text.splitlines())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
