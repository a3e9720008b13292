"""Files of others read within bounds, and files of ours that a reader sees whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 256 * 2**20
"""Assumed: ten times the state of a stack with ten thousand resources."""


def read_bounded(path: Path, most: int = _MOST_BYTES) -> bytes:
    """The content. Raises OSError, also for a folder, a pipe or a device, which may never end, and for a longer file."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most / 2**20:,.0f} MiB", str(path))
    return data


def write_whole(path: Path, content: bytes) -> None:
    """Put the content in its place at once; what was there stays until then. Raises OSError, and leaves nothing half then.

    It keeps the mode that was there. Through a link to its target; into a pipe or a device, which cannot be replaced, as it comes.
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
        # A full disk names no file, and that of the part is not what was asked for.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)
