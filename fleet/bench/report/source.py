"""Source of a report: merged.json while it is newer than all inputs, else the inputs, merged again."""

from __future__ import annotations

from pathlib import Path

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE, RUN_FOLDER, is_input
from fleet.bench.measurement import Judged, read_merged


def judged_of(folder: Path) -> Judged:
    """The measurement in that folder with its certificate. Raises BenchmarkError where nothing can be merged."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise BenchmarkError(f"{folder}: {what}; give a folder that `fleet bench run` or `fleet bench fetch` wrote")
    merged = folder / MERGED_FILE
    if merged.is_file() and merged.stat().st_mtime_ns >= newest_input_ns(folder):
        judged = read_merged(merged)
        if not _lost_runs(folder, judged):
            return judged
    return _merged(folder)


def _lost_runs(folder: Path, judged: Judged) -> bool:
    """Whether a merged run's folder is missing. Without any of them merged.json was kept alone, which is fine."""
    there = {path.name for path in folder.iterdir() if RUN_FOLDER.fullmatch(path.name)}
    return bool(there) and any(run.name not in there for run in judged.measurement.runs)


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


def _merged(folder: Path) -> Judged:
    from fleet.bench.merge.judged import judge

    return judge(folder)
