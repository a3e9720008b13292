"""Temporary folders that go with their process, or with the next run where a process was killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleet.clients.stopping import stopped_by_exception

_OURS: Final = re.compile(r"\.?fleet-tmp-[a-z]+-[a-z0-9_]{8}")
"""Names of `tempfile.mkdtemp` behind our prefix."""
_YOUNG_SECONDS: Final = 60.0
"""A younger folder may not be locked yet. Assumed: far longer than a process takes from making a folder to locking it."""


@contextlib.contextmanager
def scratch(name: str, beside: Path | None = None) -> Iterator[Path]:
    """A private folder, mode 0700, removed on exit, SIGTERM and SIGHUP included.

    First removes those that killed processes of this user left. `beside`: a path in whose folder it is made, hidden; else the system's
    place for temporary files. Raises OSError.
    """
    parent = Path(tempfile.gettempdir()) if beside is None else beside.parent
    _sweep(parent)
    with stopped_by_exception():
        folder = Path(tempfile.mkdtemp(prefix=f"{'.' * (beside is not None)}fleet-tmp-{name}-", dir=parent))
        try:
            with _locked(folder):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether this process has the folder's lock. The system releases it when the process ends, however that is."""
    try:
        import fcntl  # not available on Windows, where nothing is swept

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (ImportError, OSError):
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for one in [Path(entry) for entry in os.scandir(parent) if _OURS.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                at = one.lstat()
                mine = stat.S_ISDIR(at.st_mode) and at.st_uid == os.getuid()
                if mine and time.time() - at.st_mtime > _YOUNG_SECONDS:
                    with _locked(one) as dead:
                        if dead:
                            shutil.rmtree(one, ignore_errors=True)
