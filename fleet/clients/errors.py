"""What keeps a command from a running stack."""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "",
    "missing program",
    "not found",
    "already exists",
    "forbidden",
    "credentials",
    "unreachable",
    "timeout",
    "refused",
]
"""What callers tell apart. `missing program`: a program of this machine or of the pod; `unreachable`: no network, or a server that
has trouble of its own: asking later helps; `refused`: the request itself was wrong, or words that are not known; empty: nothing
that a caller could do something about."""


class LiveError(Exception):
    """One message for a person: what was tried on the running stack, what came back, and what to do."""

    def __init__(self, message: str, *, reason: Reason = "") -> None:
        super().__init__(message)
        self.reason: Reason = reason
