"""Power and use of the GPUs: `nvidia-smi dmon -o DT` of each server's pod, and DCGM's series.

Columns of dmon are found by its header lines, which differ between driver versions and come again every so many rows; `-`
is a value that this GPU does not give. Its times are the pod's local time, which is UTC in a container.
"""

from __future__ import annotations

import calendar
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import numpy as np

from fleet.bench.folder import DcgmSeries
from fleet.bench.measurement import GpuReading, Gpus, GpuTimeline
from fleet.bench.merge.client_data import Floats
from fleet.bench.merge.problems import Problem

POWER: Final = "power_watts"
# Names of dmon's columns. Source: nvidia-smi's manual, "Device Monitoring"; older drivers write temp and cclk.
_DMON: Final[Mapping[str, str]] = {
    "pwr": POWER,
    "gtemp": "temperature_celsius",
    "temp": "temperature_celsius",
    "mtemp": "memory_temperature_celsius",
    "sm": "sm_percent",
    "mem": "memory_percent",
    "mclk": "memory_clock_mhz",
    "pclk": "sm_clock_mhz",
    "cclk": "sm_clock_mhz",
    "fb": "memory_mib",
}
# Source: DCGM's field identifiers; managed Prometheus keeps their names.
_DCGM: Final[Mapping[str, str]] = {
    "DCGM_FI_DEV_POWER_USAGE": POWER,
    "DCGM_FI_DEV_GPU_TEMP": "temperature_celsius",
    "DCGM_FI_DEV_MEMORY_TEMP": "memory_temperature_celsius",
    "DCGM_FI_DEV_GPU_UTIL": "gpu_percent",
    "DCGM_FI_DEV_FB_USED": "memory_mib",
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock_mhz",
    "DCGM_FI_DEV_MEM_CLOCK": "memory_clock_mhz",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "graphics_active_share",
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active_share",
    "DCGM_FI_PROF_SM_OCCUPANCY": "sm_occupancy_share",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active_share",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram_active_share",
}
_DAY: Final = 86_400.0
_UNFIT_SHARE: Final = 0.01
"""Rows of a dmon file that may be left out. Assumed: an exec that broke and was resumed cuts one row each time; more than one in a
hundred, and more than one, is another kind of file."""
Source = Literal["nvidia-smi dmon", "DCGM"]


@dataclass(frozen=True, kw_only=True)
class GpuSeries:
    """One quantity of one GPU."""

    source: Source
    name: str
    gpu: str
    at: Floats
    values: Floats
    dated: bool = True
    """False: `at` has no date."""


class _Columns:
    """Columns by a header line."""

    def __init__(self, words: Sequence[str]) -> None:
        place = {word: index for index, word in enumerate(words)}
        self.count = len(words)
        self.gpu = place.get("gpu", 0)
        self.date, self.time = place.get("Date"), place.get("Time")
        self.quantities = [(_DMON[word], index) for word, index in place.items() if word in _DMON]


@lru_cache(maxsize=4096)
def _epoch(day: str, at: str) -> float:
    """Cached: eight GPUs of every pod have a row in the same second."""
    return float(calendar.timegm(time.strptime(f"{day} {at}", "%Y%m%d %H:%M:%S")))


@dataclass(frozen=True, kw_only=True)
class DmonFile:
    """What one pod's file holds."""

    series: list[GpuSeries]
    """Every quantity of every GPU."""
    problems: list[Problem]
    remarks: list[str]
    """Remarks for the measurement."""


def read_dmon(path: Path, shown: str) -> DmonFile:
    """One pod's file; one that ends after its header has no series.

    A few rows that do not match are skipped with a remark; with too many the file is refused.
    """
    columns = _Columns([])
    rows: dict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    dated, headed, count, unfit = True, False, 0, 0
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            words = line.replace("#", " ").split()
            if "gpu" in words:  # the line of units has none
                columns = _Columns(words)
                dated = columns.date is not None
                headed = headed or columns.time is not None
            continue
        words = line.split()
        if not words:
            continue
        if len(words) != columns.count or columns.time is None:
            if number < len(lines):  # the last line may have been cut when the measurement ended
                count, unfit = count + 1, unfit + 1
            continue
        count += 1
        try:
            at = _epoch("19700101" if columns.date is None else words[columns.date], words[columns.time])
            values = [(name, float(words[place])) for name, place in columns.quantities if words[place] != "-"]
        except ValueError:
            unfit += 1
            continue
        for name, value in values:
            moments, readings = rows[(words[columns.gpu], name)]
            moments.append(at)
            readings.append(value)
    if not headed or unfit > max(1.0, _UNFIT_SHARE * count):
        found = f"{unfit:,} of {count:,} rows do not match their header" if headed else "no reading"
        problem = Problem(
            file=shown, reason="not-dmon", found=found, allowed="output of `nvidia-smi dmon -d 1 -o DT` with "
            "gpu and Time columns",
        )  # fmt: skip
        return DmonFile(series=[], problems=[problem], remarks=[])
    series = [
        GpuSeries(
            source="nvidia-smi dmon",
            name=name,
            gpu=f"{path.stem}/{gpu}",
            at=np.array(at),
            values=np.array(values),
            dated=dated,
        )
        for (gpu, name), (at, values) in rows.items()
    ]
    left = "row does not match the header and is" if unfit == 1 else "rows do not match the header and are"
    remark = f"{shown}: {unfit:,} {left} left out, of {count:,}"
    return DmonFile(series=series, problems=[], remarks=[remark] if unfit else [])


def of_dcgm(file: DcgmSeries) -> list[GpuSeries]:
    """Every quantity of every GPU in DCGM's series."""
    series = []
    for one in file.series:
        labels = one.labels
        gpu = labels.get("UUID") or "/".join(labels.get(key, "") for key in ("Hostname", "instance", "gpu"))
        samples = sorted(one.samples)
        series.append(
            GpuSeries(
                source="DCGM",
                name=_DCGM.get(one.metric, one.metric.lower()),
                gpu=gpu,
                at=np.array([at for at, _ in samples]),
                values=np.array([value for _, value in samples]),
            )
        )
    return series


def gpus_of_run(
    series: Sequence[GpuSeries],
    *,
    window: tuple[float, float],
    whole: tuple[float, float],
    total_tokens_per_s: float,
    expected: int | None,
    problem: str | None,
) -> Gpus | None:
    """Readings in one run's window (epoch seconds), or None when nothing at all was collected.

    `expected`: GPUs of the stack. Energy needs the power of all of them.
    """
    if not series and problem is None:
        return None
    readings, problems = [], [problem] if problem else []
    found: dict[tuple[Source, str], list[tuple[GpuSeries, Floats]]] = defaultdict(list)
    for one in series:
        at = one.at if one.dated else one.at + np.round((window[0] - one.at) / _DAY) * _DAY
        inside = one.values[(at >= window[0]) & (at <= window[1])]
        if len(inside):
            found[(one.source, one.name)].append((one, inside))
    for (source, name), parts in sorted(found.items()):
        together = np.concatenate([inside for _, inside in parts])
        readings.append(
            GpuReading(
                name=name,
                mean=float(np.mean([inside.mean() for _, inside in parts])),
                peak=float(together.max()),
                gpus=len({one.gpu for one, _ in parts}),
                source=source,
            )
        )
    if series and not readings:
        problems.append("no GPU reading is in the run's window: check its clock or time zone")
    power = _power(found)
    energy = None
    if power is not None and total_tokens_per_s > 0:
        count = len(power)
        if expected is not None and count != expected:
            problems.append(f"power is known of {count} of {expected} GPUs, so energy per token is unknown")
        else:
            energy = sum(float(inside.mean()) for _, inside in power) / 3600.0 / total_tokens_per_s * 1e6
    return Gpus(
        readings=tuple(readings),
        timeline=_timeline([one for one, _ in power], whole) if power else None,
        watt_hours_per_million_tokens=energy,
        problem="; ".join(problems) or None,
    )


def _power(
    found: Mapping[tuple[Source, str], list[tuple[GpuSeries, Floats]]],
) -> list[tuple[GpuSeries, Floats]] | None:
    """Of the source with more GPUs; dmon's with as many, which reads every second."""
    sources: tuple[Source, ...] = ("nvidia-smi dmon", "DCGM")
    both = [found[(source, POWER)] for source in sources if (source, POWER) in found]
    return max(both, key=len) if both else None


def _timeline(power: Sequence[GpuSeries], whole: tuple[float, float]) -> GpuTimeline | None:
    """Sum of all GPUs at every moment at which one was read, the others at their nearest in between."""
    dated = [one for one in power if one.dated]
    if not dated:
        return None
    moments = np.unique(np.concatenate([one.at for one in dated]))
    moments = moments[(moments >= whole[0]) & (moments <= whole[1])]
    if not len(moments):
        return None
    watts = sum(np.interp(moments, one.at, one.values) for one in dated)
    return GpuTimeline(at=tuple((moments - whole[0]).tolist()), watts=tuple(np.asarray(watts).tolist()))
