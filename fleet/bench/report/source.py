"""Source of a report: merged.json while it is newer than all inputs; else the inputs, merged again."""

from __future__ import annotations

from pathlib import Path

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE, RUN_FOLDER, is_input
from fleet.bench.judged import judge, read
from fleet.bench.measurement import Judged


def judged_of(folder: Path) -> Judged:
    """The measurement in that folder with its certificate.

    Raises BenchmarkError where nothing can be merged, and for a merged.json that cannot be read.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise BenchmarkError(f"{folder}: {what}; give a folder that `fleet bench run` or `fleet bench fetch` wrote")
    merged = folder / MERGED_FILE
    newest = newest_input_ns(folder)
    return read(folder) if newest and merged.is_file() and merged.stat().st_mtime_ns >= newest else judge(folder)


def newest_input_ns(folder: Path) -> int:
    """When the newest of a measurement's files was written, nanoseconds since 1970; 0 without any.

    A run's folder counts too: its time changes when a file is taken out of it.
    """
    found = [
        path
        for path in folder.rglob("*")
        if is_input(path, folder) and (path.is_file() or RUN_FOLDER.fullmatch(path.name))
    ]
    return max((path.stat().st_mtime_ns for path in found), default=0)
