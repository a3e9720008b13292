"""Store DCGM's series of a measurement, from managed Prometheus."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.files import write_whole
from fleet.bench.folder import DCGM_FILE, POD_FILE, DcgmOne, DcgmSeries, PodCourse, as_json

if TYPE_CHECKING:
    from fleet.clients.prometheus import ManagedPrometheus, Servers
    from fleet.clients.stack_outputs import StackOutputs

AROUND_SECONDS: Final = 60.0
"""Before the first and after the last step, to show the idle level. Assumed."""


def add_dcgm(folder: Path, prometheus: ManagedPrometheus, outputs: StackOutputs, servers: Servers) -> str | None:
    """Write dcgm.json, unless a complete one is there, or one with more than is available now: old samples are thinned out and
    dropped. Returns why there are no series or not all; never raises LiveError.
    """
    file = folder / DCGM_FILE
    there = _read(file)
    if there is not None and there.series and there.problem is None:
        return None
    found = span(folder)
    if found is None:
        return "pod.json is missing, so the time of the measurement is unknown and DCGM was not read"
    began, ended = found
    series, problem = prometheus.gpus(
        outputs.cluster, outputs.region, servers, began - AROUND_SECONDS, min(ended + AROUND_SECONDS, time.time())
    )
    document = DcgmSeries(
        series=tuple(DcgmOne(metric=one.metric, labels=dict(one.labels), samples=one.samples) for one in series),
        problem=problem,
    )
    if there is None or _samples(document) >= _samples(there):
        write_whole(file, json.dumps(as_json(document)).encode())
    return problem


def span(folder: Path) -> tuple[float, float] | None:
    """Begin of the first run and end of the last, seconds since 1970; None without a pod.json."""
    courses = [PodCourse.model_validate_json(file.read_bytes()) for file in folder.glob(f"*/{POD_FILE}")]
    return (min(one.began for one in courses), max(one.ended for one in courses)) if courses else None


def _read(file: Path) -> DcgmSeries | None:
    """The stored file; None where it is missing or unreadable."""
    try:
        return DcgmSeries.model_validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None


def _samples(document: DcgmSeries) -> int:
    return sum(len(one.samples) for one in document.series)
