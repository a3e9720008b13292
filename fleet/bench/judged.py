"""Merge and certify a folder; write and read merged.json."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from facts.files import write_whole
from fleet.bench.certificate import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE
from fleet.bench.measurement import Judged, MergeOptions
from fleet.bench.merge.measure import merge_folder
from fleet.bench.merge.problems import merge_command


def judge(folder: Path, options: MergeOptions | None = None) -> Judged:
    """The measurement in a folder with its certificate.

    Raises BenchmarkError for files that cannot be merged.
    """
    measurement = merge_folder(folder, options)
    return Judged(measurement=measurement, certificate=certify(measurement))


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


def read(folder: Path) -> Judged:
    """What a folder's merged.json says. Raises BenchmarkError where it cannot be read."""
    merged = folder / MERGED_FILE
    try:
        return Judged.model_validate_json(merged.read_bytes())
    except OSError as error:
        problem = error.strerror or str(error)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = ": ".join((".".join(map(str, first["loc"])), first["msg"])).removeprefix(": ")
    raise BenchmarkError(f"{merged} cannot be read: {problem}; merge again: {merge_command(folder)}")
