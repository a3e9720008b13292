"""Store DCGM's series of a measurement, from managed Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts import strict_json
from facts.files import write_whole
from fleet.bench.folder import DCGM_FILE, RUN_FOLDER, DcgmOne, DcgmSeries, as_json

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
        return "pod-N.json is missing, so the time of the measurement is unknown and DCGM was not read"
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
    """First and last step of any pod in any run, seconds since 1970; None without pod-N.json."""
    moments = sorted(moment for path in sorted(folder.iterdir()) if path.is_dir() for moment in _steps(path))
    return (moments[0], moments[-1]) if moments else None


def _steps(path: Path) -> Iterator[float]:
    if not RUN_FOLDER.fullmatch(path.name):
        return
    for file in path.glob("pod-*.json"):
        try:
            steps = strict_json.read(file)["steps"]
            yield from [float(step["at"]) for step in steps]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # the merge reports damaged files


def _read(file: Path) -> DcgmSeries | None:
    """The stored file; None where it is missing or unreadable."""
    try:
        return DcgmSeries.model_validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None


def _samples(document: DcgmSeries) -> int:
    return sum(len(one.samples) for one in document.series)
