"""The error that commands raise."""


class CommandError(Exception):
    """Why a command cannot answer, as a message for the user. Ends the process with exit code 2."""
