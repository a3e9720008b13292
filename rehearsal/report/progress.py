"""What happens now, while it happens: a live line on a terminal, plain lines in a log, nothing where a machine reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rehearsal.report.wording import MARKS, state_of, why_failed
from report.words import format_elapsed

if TYPE_CHECKING:
    from rehearsal.clock import Clock
    from rehearsal.report.wording import State
    from rehearsal.results import DrillResult
    from report.terminal import Paper

REFRESHES_PER_SECOND: Final = 4
LEAST_GAP_SECONDS: Final = 1.0
"""In a log, steps closer than this to the one before are left out: the next one says where things stand."""
_STYLES: Final[dict[State, str]] = {"passed": "green", "failed": "bold red", "skipped": "dim"}


class Shown:
    """Takes note of what happens and shows nothing: what the other two are made from. Safe to call from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._drill_began = self._began
        self._clock: Clock | None = None
        self.drill = ""
        """Name of the drill being played, or of what comes before the first."""
        self.number = self.total = 0
        """Which of how many drills; 0 before the first."""
        self.text = ""
        """The step being done."""

    def drills(self, total: int) -> None:
        """How many there will be."""
        self.total = total

    def watch(self, clock: Clock | None) -> None:
        """Show this clock's simulated time, or no longer any."""
        self._clock = clock

    def starts(self, name: str) -> None:
        """A drill, or something before the first, begins."""
        with self._lock:
            self.drill, self.text = name, ""
            self._drill_began = time.monotonic()
        self._on_start(name)

    def drill_starts(self, name: str) -> None:
        """The next drill begins."""
        self.number += 1
        self.starts(name)

    def step(self, text: str) -> None:
        """What is being done, in a few words."""
        with self._lock:
            if text == self.text:
                return
            self.text = text
        self._on_step(text)

    def drill_ended(self, result: DrillResult) -> None:
        """How the drill went."""
        with self._lock:
            self.text = ""
        self._on_end(result)

    @property
    def simulated(self) -> str:
        """The simulated time, `1:02:05`; empty where no clock is watched."""
        clock = self._clock
        if clock is None:
            return ""
        seconds = int(clock.now_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    @property
    def elapsed_seconds(self) -> float:
        """Wall time since the beginning."""
        return time.monotonic() - self._began

    def _on_start(self, name: str) -> None:
        pass

    def _on_step(self, text: str) -> None:
        pass

    def _on_end(self, result: DrillResult) -> None:
        pass


class PlainLines(Shown):
    """A line for every beginning and end, and for steps that are not too close together."""

    def __init__(self, paper: Paper) -> None:
        super().__init__()
        self._paper = paper
        self._last = 0.0

    def _write(self, text: str) -> None:
        mark = f"[{self.elapsed_seconds:6.1f} s] "
        line = self._paper.writable(shortened(mark + text, max(40, self._paper.width)))
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
            # The time stands first: a long text is cut at its end.
            simulated = f"simulated {self.simulated}  " if self.simulated else ""
            self._write(f"  {simulated}{text}")

    def _on_end(self, result: DrillResult) -> None:
        self._write(f"{_ended(result)}")


class LiveLine(Shown):
    """Drills that have ended, one below the other, and a line that lives below them."""

    def __init__(self, paper: Paper) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        width = max(40, paper.width)
        self._console = Console(file=paper.stream, width=width, force_terminal=True, highlight=False)
        self._live = Live(
            get_renderable=self._line,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveLine:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _line(self) -> Any:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        what = Text.assemble((_counted(self), "dim"), (self.drill, "bold"))
        if self.text:
            what.append(f"  {self.text}")
        times = [f"simulated {self.simulated}"] if self.simulated else []
        times.append(format_elapsed(time.monotonic() - self._drill_began))
        grid.add_row(self._spinner(Spinner), what, Text(" · ".join(times), style="dim"))
        return grid

    def _spinner(self, kind: type[Any]) -> Any:
        # One spinner for the whole run: a new one each time would always show its first picture.
        if not hasattr(self, "_turning"):
            self._turning = kind("dots", style="cyan")
        return self._turning

    def _on_end(self, result: DrillResult) -> None:
        from rich.text import Text

        state = state_of(result)
        text = Text.assemble((f"{MARKS[state]} ", _STYLES[state]), (result.name, "bold"))
        rest = f"  {result.skipped}" if result.skipped else f"  {format_elapsed(result.wall_seconds)}"
        text.append(rest, style="dim")
        if why := why_failed(result):
            text.append(f"  {' '.join(why.splitlines())}", style="red")
        self._console.print(text, overflow="ellipsis", no_wrap=True)


def shortened(text: str, width: int) -> str:
    """The text in one line of that width, with an ellipsis where its end is missing."""
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
    """Progress on `paper` for as long as the block runs: live on a terminal, lines elsewhere, nothing when `quiet`."""
    if quiet:
        yield Shown()
    elif paper.styled and paper.knows_unicode and paper.stream.isatty():
        with LiveLine(paper) as live:
            yield live
    else:
        yield PlainLines(paper)
