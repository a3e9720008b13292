"""Progress of a launch: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from fleet.report.live_line import LiveLine
from fleet.report.terminal import Part

_BAR: Final = 20
"""Characters of a progress bar. Assumed: beside its phase and counts it fits into 80 columns."""
PLAIN_EVERY_SECONDS: Final = 30.0
"""Seconds between progress lines of one state in a log."""


@dataclass(frozen=True, slots=True)
class State:
    """State of a launch."""

    phase: str
    """Phase, as text."""
    detail: str = ""
    """What it waits for, or its current run."""
    done: int | None = None
    of: int | None = None
    """Requests answered, or bytes; None where nothing is counted."""
    unit: str = "requests"
    more: str = ""
    """What changes all the time, such as a rate; no news by itself."""

    def counted(self) -> str:
        """`1,200 of 30,000 requests (4 %)`; empty where nothing is counted."""
        if self.done is None or not self.of:
            return ""
        if self.unit == "bytes":
            return f"{self.done / 1e6:,.0f} of {self.of / 1e6:,.0f} MB ({self.done / self.of:.0%})"
        return f"{self.done:,} of {self.of:,} {self.unit} ({self.done / self.of:.0%})"


class Display:
    """Plain lines: one for every new phase or reason, and progress now and then."""

    def __init__(self, stream: TextIO, began: float | None = None) -> None:
        """`began`: start of the elapsed time, monotonic; default: now."""
        self._stream = stream
        self._began = time.monotonic() if began is None else began
        self._last: tuple[str, str] = ("", "")
        self._told = 0.0

    def state(self, state: State) -> None:
        """Show a state."""
        now = time.monotonic()
        what = (state.phase, state.detail)
        if what == self._last and now - self._told < PLAIN_EVERY_SECONDS:
            return
        if what == self._last and not state.counted():
            return
        self._last, self._told = what, now
        parts = ": ".join(filter(None, (state.phase, state.detail)))
        self.note(", ".join(filter(None, (parts, state.counted(), state.more))))

    def note(self, text: str) -> None:
        """Print a note."""
        self._stream.write(f"[{self.elapsed()}] {' '.join(text.split())}\n")
        self._stream.flush()

    def elapsed(self) -> str:
        """Elapsed minutes and seconds."""
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:3}:{seconds % 60:02}"


class LiveDisplay(Display):
    """A live line at the bottom, and notes above it."""

    def __init__(self, stream: TextIO, width: int, began: float | None = None) -> None:
        super().__init__(stream, began)
        self._state = State("")
        self._phase_began = time.monotonic()
        self.line = LiveLine(stream, width, self._shown)

    def state(self, state: State) -> None:
        """Show a state; a finished phase leaves a line with its duration."""
        if self._state.phase != state.phase:
            now = time.monotonic()
            if self._state.phase:
                self.note(f"{self._state.phase}: {now - self._phase_began:.0f} s")
            self._phase_began = now
        self._state = state

    def note(self, text: str) -> None:
        """Print a note."""
        self.line.above((f"[{self.elapsed()}] {' '.join(text.split())}", "dim"))

    def _shown(self) -> tuple[list[Part], str]:
        state = self._state
        parts: list[Part] = [(state.phase, "bold")]
        if state.done is not None and state.of:
            full = min(_BAR, int(_BAR * state.done / state.of))
            parts += ["  ", ("━" * full, "cyan"), ("━" * (_BAR - full), "dim")]
        parts += [f"  {text}" for text in (state.detail, state.more) if text]
        return parts, " · ".join(filter(None, (state.counted(), self.elapsed().strip())))


@contextlib.contextmanager
def shown(stream: TextIO, *, live: bool, width: int, began: float | None = None) -> Iterator[Display]:
    """A display during the block; `began` continues the elapsed time of an earlier one."""
    if live:
        display = LiveDisplay(stream, width, began)
        with display.line:
            yield display
    else:
        yield Display(stream, began)
