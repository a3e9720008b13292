"""How a command ends: exit codes, the one error that commands raise, and leaving with everything flushed."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from fleet import CODE
from fleet.cli.command_error import CommandError as CommandError

CLEAN = 0
FINDINGS = 1
"""The command did its work and found something that must be mended, such as a mandatory policy violated."""
UNUSABLE = 2
"""Wrong usage, wrong configuration, or anything else that kept the command from an answer."""
CHANGES = 4
"""Nothing is wrong, and something would change; only with --detailed-exitcode. Not 2, which is taken."""
INTERRUPTED = 130
"""128 + SIGINT, as shells count it."""
PIPE_CLOSED = 141
"""128 + SIGPIPE: the reader went away (`fleet preview | head`), as any other program would report it."""


def flush(code: int) -> int:
    """Everything printed so far is with its reader; returns the code to exit with."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter flushes again at exit and complains about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    sys.stderr.flush()
    return code


def leave(code: int) -> NoReturn:
    """End the process without taking it apart, with everything printed and no child left: the last act of a command.

    Measured: freeing the SDKs' classes one by one takes 22 % of a preview's processor time.
    """
    from fleet.preview import children

    code = flush(code)
    children.end_all()
    os._exit(code)


def error_text(error: Exception) -> str:
    """What a person is told of an error, without secrets; with FLEET_DEBUG it is raised instead."""
    if os.environ.get("FLEET_DEBUG"):
        raise error
    from settings.rules.secrets_in_text import without_secrets

    return without_secrets(_words(error))


def _words(error: Exception) -> str:
    if isinstance(error, CommandError):
        return f"fleet: {error}"
    # By name: importing the classes would cost every start what only a failed one needs.
    kind = type(error).__name__
    if kind == "SettingsError":
        return str(error)
    if kind == "ProgramError":
        gap = "\n\n" if "\n" in str(error) else " "  # a refusal of the program keeps the lines of `config check`
        return f"fleet: the program could not be recorded:{gap}{error}"
    if kind in (
        "RenderError",
        "PolicyError",
        "BaselineError",
        "RehearsalError",
        "BenchmarkError",
        "LiveError",
        "LedgerError",
    ):
        return f"fleet: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name and not (CODE / error.name.partition(".")[0]).is_dir():
        from fleet.cli.packages import how_to_install

        return f"fleet: {error.name} is not installed; run: {how_to_install(error.name)}"
    if isinstance(error, OSError) and error.strerror:
        return f"fleet: {error.strerror}: {error.filename}" if error.filename else f"fleet: {error.strerror}"
    return f"fleet: unexpected {kind}: {error}\nThis is a defect of fleet. FLEET_DEBUG=1 shows where it happened."
