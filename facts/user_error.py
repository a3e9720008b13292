"""The base of all errors that a user can act on. Any other exception is a defect of the program."""

from __future__ import annotations


class UserError(Exception):
    """A wrong input, or something that cannot be read, started or reached. The message says what to do."""

    def for_user(self) -> str:
        """The message as the command line prints it."""
        return f"fleet: {self}"
