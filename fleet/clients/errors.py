"""Errors of access to a running stack."""

from __future__ import annotations

from typing import Literal

from facts.user_error import UserError

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
"""Reasons that callers distinguish. `missing program`: on this machine or in the pod; `unreachable`: no network, or a server
error that may pass; `refused`: the request itself was wrong, or the error is unknown; empty: nothing
that a caller can handle."""


class LiveError(UserError):
    """One message: what was tried on the running stack, the response, and what to do."""

    def __init__(self, message: str, *, reason: Reason = "") -> None:
        super().__init__(message)
        self.reason: Reason = reason
