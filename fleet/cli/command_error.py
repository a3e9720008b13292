"""The error that commands raise."""

from facts.user_error import UserError


class CommandError(UserError):
    """Why a command cannot answer."""
