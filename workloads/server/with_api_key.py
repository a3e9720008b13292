"""Starts a program with the API key from a mounted file in an environment variable.

Arguments: VARIABLE FILE PROGRAM [ARGUMENT ...]. The program replaces this process, so it is
process 1 and receives the stop signal, and the key never appears on a command line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Become the program. Exits with a message when the file is missing or empty."""
    variable, file, *program = arguments
    try:
        # Secrets often end with a line feed; a header cannot contain one.
        key = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        sys.exit(f"cannot read the API key: {error}")
    if not key:
        # vLLM treats an empty key as no key and would serve every client.
        sys.exit(f"{file} is empty: not starting a server without the key that its settings ask for")
    os.environ[variable] = key
    os.execvp(program[0], program)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
