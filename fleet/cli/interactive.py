"""The person at the terminal: live lines, confirmation of a cost, and Ctrl-C."""

from __future__ import annotations

import sys

from fleet.cli.exits import INTERRUPTED, CommandError
from fleet.report.terminal import stdout_paper


def terminal() -> tuple[bool, int]:
    """Whether stdout shows a live line, and how wide it is."""
    paper = stdout_paper()
    return paper.styled and paper.knows_unicode and sys.stdout.isatty(), paper.width


def confirm(question: str, what: str) -> None:
    """Ask a person. `what` costs money, e.g. "a run". Raises CommandError without a terminal, and for any other answer than yes."""
    if not sys.stdin.isatty():
        raise CommandError(f"{what} costs money, and stdin is not a terminal; pass --yes to confirm")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was started")


def code_of(stop: BaseException) -> int:
    """The exit code after Ctrl-C or a signal."""
    return stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else INTERRUPTED
