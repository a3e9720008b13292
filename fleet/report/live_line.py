"""A line that lives at the bottom of a terminal while something goes on, and what is printed above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from fleet.report.printable import beneath
from fleet.report.terminal import Part, cleaned

LEAST_WIDTH: Final = 40
_REFRESHES_PER_SECOND: Final = 4


class LiveLine:
    """A spinner, what `state` says is going on, and at the right margin its times. A context manager."""

    def __init__(self, stream: TextIO, width: int, state: Callable[[], tuple[Sequence[Part], str]]) -> None:
        self._state = state
        self._spinner = Spinner("dots", style="cyan")
        self._console = Console(
            file=beneath(stream), width=max(LEAST_WIDTH, width), force_terminal=True, highlight=False
        )
        self._live = Live(
            get_renderable=self._line,
            console=self._console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Draw it now."""
        self._live.refresh()

    def above(self, *parts: Part) -> None:
        """A line that stays, above it. The terminal breaks it, so that a command in it is copied whole."""
        self._console.print(Text.assemble(*cleaned(parts)), soft_wrap=True)

    def _line(self) -> Any:
        what, times = self._state()
        grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(self._spinner, Text.assemble(*cleaned(what)), Text(times, style="dim"))
        return grid
