"""Progress of a rehearsal: a live line on a terminal, plain lines in a log, nothing with `--format json`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fleet.report.live_line import LEAST_WIDTH, LiveLine
from fleet.report.words import format_elapsed
from lab.report.wording import MARKS, state_of, why_failed

if TYPE_CHECKING:
    from fleet.report.terminal import Paper, Part
    from lab.report.wording import State
    from lab.results.clock import Clock
    from lab.results.result import DrillResult

LEAST_GAP_SECONDS: Final = 1.0
"""In a log, steps that follow the previous line sooner are left out."""
_STYLES: Final[dict[State, str]] = {"passed": "green", "failed": "bold red", "skipped": "dim"}


class Shown:
    """Progress that is tracked but not shown; base class of the others. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._drill_began = self._began
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
            self._drill_began = time.monotonic()
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


class Live(Shown):
    """Ended drills as lines, with a live line below them."""

    def __init__(self, paper: Paper) -> None:
        super().__init__()
        self._width = max(LEAST_WIDTH, paper.width)
        self.line = LiveLine(paper.stream, paper.width, self._state)

    def _state(self) -> tuple[list[Part], str]:
        times = [f"simulated {self.simulated}"] if self.simulated else []
        times.append(format_elapsed(time.monotonic() - self._drill_began))
        what: list[Part] = [(_counted(self), "dim"), (self.drill, "bold")]
        room = self._width - len(_counted(self)) - len(self.drill) - len(" · ".join(times)) - 6
        return [*what, f"  {shortened(self.text, max(1, room))}" if self.text else ""], " · ".join(times)

    def _on_end(self, result: DrillResult) -> None:
        state = state_of(result)
        rest = f"  {result.skipped}" if result.skipped else f"  {format_elapsed(result.wall_seconds)}"
        why = f"  {' '.join(why_failed(result).splitlines())}" if why_failed(result) else ""
        self.line.above((f"{MARKS[state]} ", _STYLES[state]), (result.name, "bold"), (rest, "dim"), (why, "red"))


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


@contextmanager
def shown(paper: Paper, *, quiet: bool = False) -> Iterator[Shown]:
    """Show progress on `paper` while the block runs: live on a terminal, lines elsewhere, nothing if `quiet`."""
    if quiet:
        yield Shown()
    elif paper.styled and paper.knows_unicode and paper.stream.isatty():
        live = Live(paper)
        with live.line:
            yield live
    else:
        yield PlainLines(paper)
