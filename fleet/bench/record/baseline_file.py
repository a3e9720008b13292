"""The file of a baseline. It names its results, and is computed again from them where it is read."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from facts.files import write_whole
from fleet.bench.certificate import certify
from fleet.bench.certificate.baseline import Baseline, of
from fleet.bench.errors import BenchmarkError
from fleet.bench.merge import merge_folder
from fleet.bench.recomputed import Results, located, part_of, require_same, results_of, stated_in
from fleet.bench.record.entry import only

_HOW: Final = "fleet bench record DIR --baseline"


def stored(folder: Path, point: int | None, path: Path) -> Baseline:
    """The baseline that a folder's results make, for a file at `path`. Raises BenchmarkError unless it can be compared."""
    measurement = merge_folder(folder)
    found = of(only(measurement, point), certify(measurement, point))
    if not found.judges:
        raise BenchmarkError(f"{path}: a baseline must be certified, and {folder} is not. {found.headline}")
    return found.model_copy(update={"results": results_of(folder, path), "point": point})


def as_text(baseline: Baseline) -> str:
    """The file."""
    return baseline.model_dump_json(by_alias=True, indent=2) + "\n"


def write(path: Path, baseline: Baseline) -> None:
    """Write it whole or not at all. Raises BenchmarkError when the file cannot be written."""
    try:
        write_whole(path, as_text(baseline).encode())
    except OSError as error:
        raise BenchmarkError(f"{path}: the baseline cannot be written: {error.strerror or error}") from error


def read(path: Path) -> Baseline:
    """A stored baseline, computed again from its results. Raises BenchmarkError where they are missing or give another one."""
    try:
        stated = stated_in(path, "a baseline", 3, f"write one: {_HOW} {shlex.quote(str(path))}")
    except OSError as error:
        raise BenchmarkError(
            f"{path}: the baseline cannot be read: {error.strerror or error}; write one: {_HOW} {shlex.quote(str(path))}"
        ) from None
    again = f"write it again from the results: {_HOW} {shlex.quote(str(path))}"
    results, point = part_of(path, stated, "results", Results, again), stated.get("point")
    if type(point) not in (int, type(None)):
        raise BenchmarkError(f"{path}: point is {str(point)[:60]!r}, not the number of a load; {again}")
    found = stored(located(path, results, "the baseline's results", again), point, path)
    require_same(path, stated, json.loads(as_text(found)), again)
    return found
