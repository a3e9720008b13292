"""A fetched measurement merged, certified and reported, beside its files."""

from __future__ import annotations

from pathlib import Path

from benchmark.certificate import certify
from benchmark.folder import MERGED_FILE
from benchmark.measurement import Judged
from benchmark.merge import MergeOptions, merge_folder
from benchmark.report.write import write_report


def judge(folder: Path) -> tuple[Judged, Path]:
    """What the folder's files amount to, and the page that says so. Raises BenchmarkError where they cannot be merged."""
    import orjson

    measurement = merge_folder(folder, MergeOptions())
    judged = Judged(measurement=measurement, certificate=certify(measurement))
    part = folder / f".{MERGED_FILE}.part"
    part.write_bytes(orjson.dumps(judged.model_dump(mode="json", by_alias=True)))
    part.replace(folder / MERGED_FILE)
    page, *_ = write_report(judged, folder, source=folder)
    return judged, page
