"""Power and use of the GPUs, from DCGM's series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet.bench.folder import DcgmSeries
from fleet.bench.measurement import GpuReading, Gpus
from fleet.bench.merge.client_data import Floats

_DCGM: Final[Mapping[str, str]] = {
    "DCGM_FI_DEV_POWER_USAGE": "power_watts",
    "DCGM_FI_DEV_GPU_UTIL": "gpu_percent",
    "DCGM_FI_DEV_GPU_TEMP": "temperature_celsius",
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock_mhz",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active_share",
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active_share",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram_active_share",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "nvlink_sent_bytes_per_s",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "nvlink_received_bytes_per_s",
}
"""Names of the series that `fleet.clients.prometheus` collects; another series of dcgm.json keeps its own."""


@dataclass(frozen=True, kw_only=True)
class GpuSeries:
    """One quantity of one GPU."""

    name: str
    gpu: str
    at: Floats
    values: Floats


def of_dcgm(file: DcgmSeries) -> list[GpuSeries]:
    """Every quantity of every GPU in DCGM's series."""
    series = []
    for one in file.series:
        labels = one.labels
        gpu = labels.get("UUID") or "/".join(labels.get(key, "") for key in ("Hostname", "instance", "gpu"))
        samples = sorted(one.samples)
        series.append(
            GpuSeries(
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
    problem: str | None,
) -> Gpus | None:
    """Readings in one run's window (epoch seconds), or None when nothing at all was collected."""
    if not series and problem is None:
        return None
    readings, problems = [], [problem] if problem else []
    found: dict[str, list[tuple[GpuSeries, Floats]]] = defaultdict(list)
    for one in series:
        inside = one.values[(one.at >= window[0]) & (one.at <= window[1])]
        if len(inside):
            found[one.name].append((one, inside))
    for name, parts in sorted(found.items()):
        together = np.concatenate([inside for _, inside in parts])
        readings.append(
            GpuReading(
                name=name,
                mean=float(np.mean([inside.mean() for _, inside in parts])),
                peak=float(together.max()),
                gpus=len({one.gpu for one, _ in parts}),
            )
        )
    if series and not readings:
        problems.append("no GPU reading is in the run's window: check its clock")
    return Gpus(readings=tuple(readings), problem="; ".join(problems) or None)
