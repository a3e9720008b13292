"""A child program with a log, which ends with this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.control_plane.guard import SIGNALS
from lab.results.result import RehearsalError

LAST_LINES: Final = 12
"""Log lines quoted in an error."""
_TAIL_BYTES: Final = 64 * 1024
_GUARD: Final = Path(__file__).with_name("guard.py")
_STOP_SECONDS: Final = 20.0
"""Assumed: a killed process that still exists then hangs in the kernel."""


class Process:
    """A program under a guard. Output goes to `log`; `orphaned_folder` is removed if this process is killed."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path,
        log: Path,
        orphaned_folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        held, self._lifeline = os.pipe()
        try:
            with log.open("ab") as output:
                self._guard = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        str(_GUARD),
                        str(held),
                        str(orphaned_folder or ""),
                        *map(str, command),
                    ],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=None if environment is None else dict(environment),
                    pass_fds=(held,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(held)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 plus the signal if one ended it."""
        return self._guard.poll()

    @property
    def program(self) -> int | None:
        """Process id of the program itself; None once it has ended. Linux only."""
        children = Path(f"/proc/{self._guard.pid}/task/{self._guard.pid}/children")
        try:
            found = children.read_text(encoding="ascii").split()
        except OSError:
            return None
        return int(found[0]) if found else None

    def wait(self, timeout_seconds: float) -> int | None:
        """Its exit code, or None on timeout."""
        try:
            return self._guard.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does; returns at once."""
        self.send(signal.SIGINT)

    def send(self, number: signal.Signals) -> None:
        """Send it SIGINT, SIGKILL, SIGTERM or SIGUSR1; returns at once."""
        (told,) = (byte for byte, known in SIGNALS.items() if known == number)
        with contextlib.suppress(OSError):  # it ended by itself
            os.write(self._lifeline, told)

    def tell_to_stop(self) -> None:
        """Have it killed; returns at once. What it works on is thrown away, so there is nothing to end in order."""
        if self._lifeline < 0:
            return
        with contextlib.suppress(OSError):  # it ended by itself
            os.write(self._lifeline, b"s")
        os.close(self._lifeline)
        self._lifeline = -1

    def stop(self) -> None:
        """Kill it and wait for its end."""
        self.tell_to_stop()
        if self.wait(_STOP_SECONDS) is None:
            self._guard.kill()
            self._guard.wait()

    def require_running(self) -> None:
        """Raise RehearsalError, with the end of its log, if it has died."""
        code = self.exit_code
        if code is not None and self._lifeline >= 0:
            raise RehearsalError(
                f"{self.name} ended unexpectedly (exit code {code}). End of its log:\n{last_lines(self.log)}"
            )


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """The end of a log, indented; long lines are cut."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join(f"  {line[:400]}" for line in lines[-count:]) or "  (nothing)"
