"""Entry point of `fleet`: runs the command and prints errors as one message on stderr."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TextIO, cast

from fleet.cli import VERSION
from fleet.cli.exits import CLEAN, INTERRUPTED, PIPE_CLOSED, CommandError, error_text, exit_code, flush
from fleet.report.printable import Printer


def main() -> int:
    """Run `fleet` with the process's arguments and return its exit code."""
    # Closed by the caller (`fleet ... >&-`): output is dropped, the exit code remains.
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    # Before typer is loaded, which takes three quarters of the time.
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"fleet {VERSION}\n")
        return flush(CLEAN)
    # Characters that the terminal cannot show become question marks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    with redirect_stdout(cast(TextIO, Printer(sys.stdout))), redirect_stderr(cast(TextIO, Printer(sys.stderr))):
        return _guarded()


def _guarded() -> int:
    try:
        return flush(_run())
    except KeyboardInterrupt:
        return flush(INTERRUPTED)
    except BrokenPipeError:
        return flush(PIPE_CLOSED)
    except Exception as error:
        flush(CLEAN)
        sys.stderr.write(error_text(error) + "\n")
        return exit_code(error)


def _run() -> int:
    from fleet.cli.app import command_line

    if any(one == "" or (one.startswith("--") and one.endswith("=")) for one in sys.argv[1:]):
        # `--out "$FOLDER"` with an unset variable would write into the current folder.
        raise CommandError("an argument is empty; check for an unset shell variable")
    try:
        command_line(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="fleet")
    except SystemExit as stop:
        # typer exits with 1 for a closed pipe; here 1 means findings.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else CLEAN
    return CLEAN


if __name__ == "__main__":
    sys.exit(main())
