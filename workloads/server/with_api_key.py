"""Starts a program with the API key of a mounted file in one of its environment variables.

Arguments: VARIABLE FILE PROGRAM [ARGUMENT ...]. Stands in for a shell: the program replaces this process, so it is
process 1 and gets the stop signal itself, and the key never appears on a command line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Become the program. Exits with a message when the file is missing or empty."""
    variable, file, *program = arguments
    try:
        # Secrets are often stored with a line feed at the end; a header cannot carry one.
        key = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        sys.exit(f"cannot read the API key: {error}")
    if not key:
        # vLLM takes an empty key for no key and would serve everyone.
        sys.exit(f"{file} is empty: not starting a server without the key that its settings ask for")
    os.environ[variable] = key
    os.execvp(program[0], program)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
