"""A running operation of the engine: progress, Ctrl-C, kill -9, outcome."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.control_plane.process import Process
from lab.engine.events import Event, Outcome, parsed, split

OnEvent = Callable[[Event], None]
_END: Final = b"\0end\n"
"""Follows everything that the engine wrote."""


class Operation:
    """One command with an event log, in a process that ends with this one. A context manager, which kills it at the end."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str],
        logs: Path,
        is_previewed: bool,
        on_event: OnEvent,
    ) -> None:
        """Start it. `logs`: an empty folder for its output. `on_event` is called in a thread, as the events come."""
        self._output = logs / "output.txt"
        self._is_previewed = is_previewed
        self._events: list[Event] = []
        self._broken: BaseException | None = None
        self._on_event = on_event
        # A pipe: between the preview and the update the engine empties its event log, and a reader of a file would miss events.
        pipe = logs / "events"
        os.mkfifo(pipe)
        # Written to by this process too, so that it does not end with the preview.
        self._pipe = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._process = Process(
                "pulumi",
                [*command, "--event-log", pipe],
                folder=folder,
                log=self._output,
                environment=environment,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        self._reader = threading.Thread(target=self._read, name="pulumi-events", daemon=True)
        self._reader.start()

    def wait(self) -> Outcome:
        """Wait for its end. Raises what `on_event` raised."""
        while (code := self._process.wait(1.0)) is None:
            pass
        self._end_reading()
        if self._broken is not None:
            raise self._broken
        planned, done = split(self._events, is_previewed=self._is_previewed)
        return Outcome(
            code=code,
            output=self._output.read_text(encoding="utf-8", errors="replace"),
            planned=planned,
            done=done,
        )

    def cancel(self) -> None:
        """Ctrl-C: the engine starts nothing more, and waits for what it has started. Returns at once."""
        self._process.interrupt()

    def kill(self) -> None:
        """`kill -9`: a lock and pending operations stay in the state. Waits for the end of the process; does nothing after it."""
        self._process.stop()
        self._end_reading()

    def __enter__(self) -> Operation:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _end_reading(self) -> None:
        """Have the reader read what is left, and end."""
        if self._reader.is_alive():
            with contextlib.suppress(OSError):
                os.write(self._pipe, _END)
            self._reader.join()

    def _read(self) -> None:
        unfinished = b""
        while True:
            *lines, unfinished = (unfinished + os.read(self._pipe, 1 << 16)).split(b"\n")
            for line in lines:
                if line.endswith(_END.strip()):  # After what a killed engine has left of a line.
                    os.close(self._pipe)
                    return
                try:
                    self._take(line)
                except BaseException as error:  # Raised by `wait`; unread, the pipe would stop the engine.
                    self._broken = self._broken or error

    def _take(self, line: bytes) -> None:
        for event in parsed([line.decode()]):
            self._events.append(event)
            self._on_event(event)
