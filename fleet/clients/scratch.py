"""Temporary folders that go with their process."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleet.clients.stopping import stopped_by_exception


@contextlib.contextmanager
def scratch(name: str, beside: Path | None = None) -> Iterator[Path]:
    """A private folder, mode 0700, removed on exit, SIGTERM and SIGHUP included.

    `beside`: a path in whose folder it is made, hidden; else the system's place for temporary files. Raises OSError.
    """
    prefix = f"{'.' * (beside is not None)}fleet-tmp-{name}-"
    parent = None if beside is None else beside.parent
    with (
        stopped_by_exception(),
        tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder,
    ):
        yield Path(folder)
