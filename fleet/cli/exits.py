"""Exit codes, error messages, and ending the process with all output flushed."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from facts.user_error import UserError
from fleet import CODE

CLEAN = 0
FINDINGS = 1
"""The command worked and found something to fix, such as a violated mandatory policy."""
UNUSABLE = 2
"""A wrong input: usage, configuration, a file, or something that cannot be reached."""
DEFECT = 3
"""An unexpected exception: a defect of `fleet`."""
CHANGES = 4
"""No errors, and something would change; only with --detailed-exitcode. Pulumi's and Terraform's 2 is taken."""
INTERRUPTED = 130
"""128 + SIGINT, as in shells."""
PIPE_CLOSED = 141
"""128 + SIGPIPE: the reader closed the pipe (`fleet preview | head`)."""


class CommandError(UserError):
    """Why a command cannot answer."""


def flush(code: int) -> int:
    """Flush stdout and stderr. Returns the code to exit with."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter flushes again at exit and prints an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    sys.stderr.flush()
    return code


def leave(code: int) -> NoReturn:
    """End the process after flushing output and stopping children, without freeing memory.

    Measured: freeing the SDKs' classes takes 22 % of a preview's processor time.
    """
    from fleet.preview import children

    code = flush(code)
    children.end_all()
    os._exit(code)


def error_text(error: Exception) -> str:
    """The message for an error, without secrets. With FLEET_DEBUG the error is raised instead."""
    if os.environ.get("FLEET_DEBUG"):
        raise error
    from facts.secrets_in_text import without_secrets

    return without_secrets(_message(error) or _defect(error))


def exit_code(error: Exception) -> int:
    """The exit code after an error: a wrong input, or a defect of the program."""
    return UNUSABLE if _message(error) else DEFECT


def _message(error: Exception) -> str | None:
    """What the user can act on. None: the error is a defect of the program."""
    if isinstance(error, UserError):
        return error.for_user()
    if isinstance(error, ModuleNotFoundError) and error.name and not (CODE / error.name.partition(".")[0]).is_dir():
        from fleet.doctor.packages import how_to_install

        return f"fleet: {error.name} is not installed; run: {how_to_install(error.name, sys.argv[1:])}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"fleet: {error.filename}:{error.lineno}: {error.msg}"
    if isinstance(error, OSError) and error.strerror:
        return f"fleet: {error.strerror}: {error.filename}" if error.filename else f"fleet: {error.strerror}"
    return None


def _defect(error: Exception) -> str:
    kind = type(error).__name__
    return f"fleet: unexpected {kind}: {error}\nThis is a bug in fleet. FLEET_DEBUG=1 shows the traceback."
