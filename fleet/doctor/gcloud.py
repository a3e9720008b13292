"""The user's own gcloud, asked for JSON. It never installs, enables or changes anything, and never waits for a person."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
from typing import Any, Final, Literal

from fleet.clients.kubectl_errors import GCLOUD, OFFLINE
from settings import strict_json
from settings.rules.secrets_in_text import without_secrets

ANSWER_SECONDS: Final = 30.0
"""Assumed: one command needs 1 to 3 s, and a dozen at once share the processor. Measured: without a network gcloud 528 crashes after
10 s, or is still trying after 45."""
_SHOWN: Final = 300
"""Letters of what gcloud says that a report repeats."""

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
    # Without a terminal gcloud answers its own questions. With prompts disabled the answer to "install this component?" is yes;
    # with prompts enabled and nobody there it is an error. Source: gcloud 528, console_io.PromptContinue, throw_if_unattended.
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
"""In this order: an API that is off is told as a permission denied."""


class NoAnswerError(Exception):
    """A question without an answer: why, in a line for a person."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def is_installed() -> bool:
    """Whether there is a gcloud on PATH."""
    return shutil.which("gcloud") is not None


def ask(*arguments: str, seconds: float = ANSWER_SECONDS) -> Any:
    """What gcloud printed as JSON. Raises NoAnswerError."""
    said = text(*arguments, "--format=json", seconds=seconds)
    try:
        return strict_json.loads(said)
    except ValueError:
        raise NoAnswerError(f"gcloud {arguments[0]} printed something that is not JSON", "unreadable") from None


def text(*arguments: str, seconds: float = ANSWER_SECONDS) -> str:
    """What gcloud printed. Raises NoAnswerError."""
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
            # gcloud may be a script: what it starts is ended with it.
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
    """What somebody else's program said, on one line of a report: no secret, no terminal codes, not long."""
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
    return NoAnswerError(plain(own[1] if own else said) or f"gcloud ended with code {code} and said nothing", reason)


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
    """Threads that were left at a Ctrl-C do not end theirs."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
