"""Merge, certify and compare a folder; write merged.json, and read it by computing it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from facts.files import write_whole
from fleet.bench.certificate import certify
from fleet.bench.certificate.baseline import compare
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE, is_input
from fleet.bench.measurement import Judged, MergeOptions
from fleet.bench.merge.layout import within
from fleet.bench.merge.measure import merge_folder
from fleet.bench.merge.problems import merge_command
from fleet.bench.recomputed import part_of, relative, require_same, stated_in
from fleet.bench.record.baseline_file import read


def judge(folder: Path, options: MergeOptions | None = None, baseline: Path | None = None) -> Judged:
    """The measurement in a folder with its certificate and, against a stored baseline, comparisons.

    Raises BenchmarkError for files that cannot be merged and for a baseline that cannot be read.
    """
    options = options or MergeOptions()
    before = read(baseline) if baseline is not None else None
    measurement = merge_folder(folder, options)
    certificate = certify(measurement)
    # Whoever reads this may start in another folder.
    exclude = tuple(within(text, folder)[-1] for text in options.exclude)
    return Judged(
        options=options.model_copy(update={"exclude": exclude}),
        baseline=None if baseline is None else relative(baseline, folder),
        measurement=measurement,
        certificate=certificate,
        comparisons=compare(measurement, before, certificate) if before is not None else (),
    )


def as_text(judged: Judged) -> str:
    """merged.json."""
    return judged.model_dump_json(by_alias=True, indent=1) + "\n"


def write(judged: Judged, path: Path) -> None:
    """Write it atomically. Raises BenchmarkError."""
    try:
        write_whole(path, as_text(judged).encode())
    except OSError as error:
        raise BenchmarkError(
            f"{path} cannot be written: {error.strerror or error}; give a place with --out FILE"
        ) from None


def recomputed(folder: Path) -> Judged:
    """The outcome that a folder's merged.json states, computed again from the results beside it.

    Raises BenchmarkError where they give another one, naming the first field, or are missing.
    """
    merged, again = folder / MERGED_FILE, f"merge again: {merge_command(folder)}"
    try:
        stated = stated_in(merged, "the outcome of a merge", 2, again)
    except OSError as error:
        raise BenchmarkError(f"{merged} cannot be read: {error.strerror or error}; {again}") from None
    if not any(path.is_file() and is_input(path, folder) for path in folder.rglob("*")):
        raise BenchmarkError(
            f"{merged}: the results that it was computed from are missing, so its certificate cannot be computed again; put them "
            f"beside it, or download them: fleet bench fetch NAME --out {shlex.quote(str(folder))}"
        )
    options = part_of(merged, stated, "options", MergeOptions, again)
    baseline = stated.get("baseline")
    if not isinstance(baseline, str | None):
        raise BenchmarkError(f"{merged}: baseline is {str(baseline)[:60]!r}, not the path of a file; {again}")
    judged = judge(folder, options, None if baseline is None else folder / baseline)
    require_same(merged, stated, json.loads(as_text(judged)), again)
    return judged
