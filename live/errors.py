"""What keeps a command from a running stack."""

from __future__ import annotations


class LiveError(Exception):
    """One message for a person: what was tried on the running stack, what came back, and what to do."""
