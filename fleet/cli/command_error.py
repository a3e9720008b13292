"""The one error that commands raise."""


class CommandError(Exception):
    """What keeps a command from its answer, in words for a person. Ends the process with exit code 2."""
