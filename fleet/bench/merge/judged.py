"""Merge, certify and compare a folder; write merged.json."""

from __future__ import annotations

from pathlib import Path

from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Judged
from fleet.bench.merge.measure import merge_folder
from fleet.bench.merge.options import MergeOptions
from settings.files import write_whole


def judge(folder: Path, options: MergeOptions | None = None, baseline: Path | None = None) -> Judged:
    """The measurement in a folder with its certificate and, against a stored baseline, comparisons.

    Raises BenchmarkError for files that cannot be merged and for a baseline that cannot be read.
    """
    from fleet.bench.certificate import certify
    from fleet.bench.certificate.baseline import compare, read

    before = read(baseline) if baseline is not None else None
    measurement = merge_folder(folder, options)
    certificate = certify(measurement)
    return Judged(
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
