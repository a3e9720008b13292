"""Reads files with a size limit, and writes files atomically."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 256 * 2**20
"""Assumed: ten times the size of the state of a stack with ten thousand resources."""


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content. Raises OSError, also for a folder, a pipe or a device, and for a larger file."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most / 2**20:,.0f} MiB", str(path))
    return data


def write_whole(path: Path, content: bytes) -> None:
    """Write atomically: readers see the old or the new content. Raises OSError and keeps the old content.

    Keeps the file's mode and follows links. A pipe or a device is written directly.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        path.write_bytes(content)
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        # The error of a full disk names no file, and other errors name the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)
