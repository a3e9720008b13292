"""Runs the user's gcloud for JSON. Read-only and non-interactive."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
from typing import Any, Final, Literal

from facts import strict_json
from facts.secrets_in_text import without_secrets
from fleet.clients.kubectl_errors import GCLOUD, OFFLINE

ANSWER_SECONDS: Final = 30.0
"""Timeout. Assumed: one command takes 1 to 3 s, and a dozen run in parallel. Measured: without a network gcloud 528 crashes after
10 s, or still retries after 45."""
_SHOWN: Final = 300
"""Characters of gcloud's messages shown in a report."""

Reason = Literal[
    "no gcloud",
    "login",
    "no such command",
    "API off",
    "forbidden",
    "not found",
    "unreachable",
    "timeout",
    "unreadable",
    "refused",
]

_ASKING: Final = {
    # Without a terminal, gcloud answers prompts itself. With prompts disabled, it answers yes to "install this component?";
    # with prompts enabled and no terminal, it fails. Source: gcloud 528, console_io.PromptContinue, throw_if_unattended.
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "false",
    # "API not enabled, would you like to enable it?"
    "CLOUDSDK_CORE_SHOULD_PROMPT_TO_ENABLE_API": "false",
    "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
}
_REASONS: Final[tuple[tuple[Reason, str], ...]] = (
    (
        "no such command",
        r"Invalid choice|installation of components|components are required|This prompt could not be answered",
    ),
    ("unreachable", OFFLINE.pattern + r"|Could not reach|Failed to establish a new connection|UNAVAILABLE"),
    (
        "login",
        r"active account selected|problem refreshing|[Rr]eauthenticat|invalid_grant|credentials were not found|UNAUTHENTICATED"
        r"|Invalid authentication credentials|Request had invalid authentication",
    ),
    ("API off", r"SERVICE_DISABLED|has not been used in project|API .{0,80}not enabled|it is disabled"),
    ("forbidden", r"PERMISSION_DENIED|[Pp]ermission|does not have .{0,80}access|\b403\b"),
    ("not found", r"NOT_FOUND|not found|\b404\b"),
)
"""In this order: gcloud reports a disabled API as permission denied."""


class NoAnswerError(Exception):
    """A query failed; one line gives the reason."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def is_installed() -> bool:
    """Whether gcloud is on PATH."""
    return shutil.which("gcloud") is not None


def ask(*arguments: str, seconds: float = ANSWER_SECONDS) -> Any:
    """Gcloud's output, parsed as JSON. Raises NoAnswerError."""
    said = text(*arguments, "--format=json", seconds=seconds)
    try:
        return strict_json.loads(said)
    except ValueError:
        raise NoAnswerError(f"gcloud {arguments[0]} printed something that is not JSON", "unreadable") from None


def text(*arguments: str, seconds: float = ANSWER_SECONDS) -> str:
    """Gcloud's output. Raises NoAnswerError."""
    program = shutil.which("gcloud")
    if program is None:
        raise NoAnswerError("gcloud is not on PATH", "no gcloud")
    try:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_ASKING},
            # gcloud may be a script: end its child processes too.
            process_group=0,
        )
    except OSError as error:
        raise NoAnswerError(f"gcloud cannot be started: {error.strerror}", "no gcloud") from None
    _running.add(process)
    try:
        out, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"no answer within {seconds:.0f} s", "timeout") from None
    finally:
        _end(process)
    if process.returncode != 0:
        raise _no_answer(said.decode(errors="replace"), process.returncode)
    return out.decode(errors="replace")


def plain(said: str) -> str:
    """Another program's message on one line: redacted, without terminal codes, truncated."""
    words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\xa0-\U0010ffff]+", " ", said)
    words = " ".join(without_secrets(words).split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} ..."


def _no_answer(said: str, code: int) -> NoAnswerError:
    reason: Reason = "refused"
    for known, pattern in _REASONS:
        if re.search(pattern, said):
            reason = known
            break
    if reason == "unreachable":
        return NoAnswerError("Google could not be reached", reason)
    own = GCLOUD.search(said)
    return NoAnswerError(plain(own[1] if own else said) or f"gcloud exited with code {code} and no message", reason)


_running: Final[set[subprocess.Popen[bytes]]] = set()


def _end(process: subprocess.Popen[bytes]) -> None:
    _running.discard(process)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


@atexit.register
def _end_all() -> None:
    """Processes left by threads at Ctrl-C are ended here."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
