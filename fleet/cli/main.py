"""Entry point of `fleet`: dispatch, and every error as one message on stderr instead of a traceback."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TextIO, cast

from fleet.cli import VERSION
from fleet.cli.exits import CLEAN, INTERRUPTED, PIPE_CLOSED, UNUSABLE, CommandError, error_text, flush
from fleet.report.printable import Printer


def main() -> int:
    """Run `fleet` with the process's arguments and return its exit code."""
    # Closed by whoever started us (`fleet ... >&-`): what is printed goes nowhere, and the exit code tells.
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    # Answered before typer is loaded: scripts ask for the version, and it is worth three quarters of the time.
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"fleet {VERSION}\n")
        return flush(CLEAN)
    # A terminal that cannot show a character shows a question mark: no reason to fail.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    with redirect_stdout(cast(TextIO, Printer(sys.stdout))), redirect_stderr(cast(TextIO, Printer(sys.stderr))):
        return _exit_code()


def _exit_code() -> int:
    try:
        return flush(_run())
    except KeyboardInterrupt:
        return flush(INTERRUPTED)
    except BrokenPipeError:
        return flush(PIPE_CLOSED)
    except Exception as error:
        flush(UNUSABLE)
        sys.stderr.write(error_text(error) + "\n")
        return UNUSABLE


def _run() -> int:
    from fleet.cli.app import app

    if any(one == "" or (one.startswith("--") and one.endswith("=")) for one in sys.argv[1:]):
        # `--out "$FOLDER"` of a script that forgot the variable would write into the folder that the user is in.
        raise CommandError("an argument is empty; is a variable of a script not set?")
    try:
        app(prog_name="fleet")
    except SystemExit as stop:
        # typer turns a reader that went away into exit code 1, which means "findings" here.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else CLEAN
    return CLEAN


if __name__ == "__main__":
    sys.exit(main())
