"""A launch while it goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from fleet.report.live_line import LiveLine
from fleet.report.terminal import Part

PLAIN_EVERY_SECONDS: Final = 30.0
"""In a log: how often a state that only counts on is told again."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a launch stands."""

    phase: str
    """In words."""
    detail: str = ""
    """What it waits for, or which run it is at."""
    done: int | None = None
    of: int | None = None
    """Requests answered, or bytes; None where nothing is counted."""
    unit: str = "requests"

    def counted(self) -> str:
        """`1,200 of 30,000 requests (4 %)`; empty where nothing is counted."""
        if self.done is None or not self.of:
            return ""
        if self.unit == "bytes":
            return f"{self.done / 1e6:,.0f} of {self.of / 1e6:,.0f} MB ({self.done / self.of:.0%})"
        return f"{self.done:,} of {self.of:,} {self.unit} ({self.done / self.of:.0%})"


class Display:
    """Plain lines: one for every new phase or reason, and how far it is now and then."""

    def __init__(self, stream: TextIO, began: float | None = None, *, every: float = PLAIN_EVERY_SECONDS) -> None:
        """`began`: since when time is told, by the monotonic clock; default: now. `every`: seconds between two counts."""
        self._stream, self._every = stream, every
        self._began = time.monotonic() if began is None else began
        self._last: tuple[str, str] = ("", "")
        self._told = 0.0

    def state(self, state: State) -> None:
        """Where it stands now."""
        now = time.monotonic()
        what = (state.phase, state.detail)
        if what == self._last and now - self._told < self._every:
            return
        if what == self._last and not state.counted():
            return
        self._last, self._told = what, now
        parts = ": ".join(filter(None, (state.phase, state.detail)))
        self.note(", ".join(filter(None, (parts, state.counted()))))

    def note(self, text: str) -> None:
        """Something to keep in view."""
        self._stream.write(f"[{self.elapsed()}] {' '.join(text.split())}\n")
        self._stream.flush()

    def elapsed(self) -> str:
        """Minutes and seconds since the beginning."""
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:3}:{seconds % 60:02}"


class LiveDisplay(Display):
    """A line that lives at the bottom, and notes above it."""

    def __init__(self, stream: TextIO, width: int, began: float | None = None) -> None:
        super().__init__(stream, began)
        self._state = State("")
        self._phase_began = time.monotonic()
        self.line = LiveLine(stream, width, self._shown)

    def state(self, state: State) -> None:
        """Where it stands now; a phase that is over leaves a line above, with how long it took."""
        if self._state.phase != state.phase:
            now = time.monotonic()
            if self._state.phase:
                self.note(f"{self._state.phase}: {now - self._phase_began:.0f} s")
            self._phase_began = now
        self._state = state

    def note(self, text: str) -> None:
        """Something to keep in view."""
        self.line.above((f"[{self.elapsed()}] {' '.join(text.split())}", "dim"))

    def _shown(self) -> tuple[list[Part], str]:
        detail = f"  {self._state.detail}" if self._state.detail else ""
        times = " · ".join(filter(None, (self._state.counted(), self.elapsed().strip())))
        return [(self._state.phase, "bold"), detail], times


@contextlib.contextmanager
def shown(
    stream: TextIO, *, live: bool, width: int, began: float | None = None, every: float = PLAIN_EVERY_SECONDS
) -> Iterator[Display]:
    """A display for as long as the block runs; with `began` it goes on with the time of an earlier one. `every`: as of Display."""
    if live:
        display = LiveDisplay(stream, width, began)
        with display.line:
            yield display
    else:
        yield Display(stream, began, every=every)
