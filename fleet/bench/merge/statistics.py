"""Exact statistics of values that lie in several sorted arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from tempfile import TemporaryFile
from typing import Final

import numpy as np

from fleet.bench.measurement import Distribution, Histogram
from fleet.bench.merge.client_data import Floats

BINS: Final = 60
_WIDE: Final = 20.0
"""Most over least from which bins grow geometrically: on even ones all values would lie in the first."""
_FEW: Final = 200_000
"""Values up to which sorting them together is cheaper than looking into every array. Measured: both take some 10 ms there."""
_PERCENTILES: Final = {"p10": 10.0, "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def distribution(pools: Sequence[Floats], scale: float = 1.0) -> Distribution | None:
    """Statistics of all values times `scale`; every array must be sorted. None without a value.

    Percentiles are numpy's linear interpolation between the two nearest values of all arrays together, found without
    putting them into one: a hundred thousand requests have twenty million gaps.
    """
    arrays = [pool for pool in pools if len(pool)]
    count = sum(len(array) for array in arrays)
    if not count:
        return None
    if count <= _FEW and len(arrays) > 1:
        arrays = [np.sort(np.concatenate(arrays))]
    mean = sum(float(array.sum()) for array in arrays) / count
    spread = sqrt(sum(float(np.square(array - mean).sum()) for array in arrays) / count)
    low, high = float(min(array[0] for array in arrays)), float(max(array[-1] for array in arrays))
    values = {name: percentile(arrays, q) * scale for name, q in _PERCENTILES.items()}
    return Distribution(
        count=count,
        mean=mean * scale,
        std=spread * scale,
        min=low * scale,
        max=high * scale,
        histogram=_histogram(arrays, low, high, scale),
        **values,
    )


def in_file(arrays: Sequence[Floats]) -> list[Floats]:
    """The same arrays in a file without a name, which ends with them: memory that the system may take back and read again.

    The arrays themselves where there is no room for a file.
    """
    if not any(len(array) for array in arrays):
        return list(arrays)
    try:
        with TemporaryFile(prefix="fleet-merge-") as file:
            for array in arrays:
                array.tofile(file)
            file.flush()
            together = np.asarray(np.memmap(file, dtype=np.float64, mode="r"))
    except OSError:
        return list(arrays)
    return np.split(together, np.cumsum([len(array) for array in arrays])[:-1])


def percentile(arrays: Sequence[Floats], q: float) -> float:
    """The q-th percentile (0 to 100) of all values in the sorted arrays together, by linear interpolation."""
    count = sum(len(array) for array in arrays)
    place = q / 100.0 * (count - 1)
    below = int(place)
    low = ranked(arrays, below)
    part = place - below
    return low if part == 0.0 else low + (ranked(arrays, below + 1) - low) * part


def ranked(arrays: Sequence[Floats], rank: int) -> float:
    """The value that would have index `rank` if all arrays were one sorted array. Exact."""
    arrays = [array for array in arrays if len(array)]
    if len(arrays) == 1:
        return float(arrays[0][rank])
    # How many values of each array surely lie below the wanted one, and up to where it may lie.
    low, high = [0] * len(arrays), [len(array) for array in arrays]
    while True:
        widest = max(range(len(arrays)), key=lambda i: high[i] - low[i])
        if high[widest] <= low[widest]:
            break
        pivot = float(arrays[widest][(low[widest] + high[widest]) // 2])
        less = [int(np.searchsorted(array, pivot, "left")) for array in arrays]
        up_to = [int(np.searchsorted(array, pivot, "right")) for array in arrays]
        if sum(less) <= rank < sum(up_to):
            return pivot
        if rank < sum(less):
            high = [min(old, new) for old, new in zip(high, less, strict=True)]
        else:
            low = [max(old, new) for old, new in zip(low, up_to, strict=True)]
    raise IndexError(f"rank {rank} of {sum(len(array) for array in arrays)} values")


def _histogram(arrays: Sequence[Floats], low: float, high: float, scale: float) -> Histogram:
    count = sum(len(array) for array in arrays)
    if high <= low:
        return Histogram(edges=(low * scale, high * scale), counts=(count,))
    # Values of 0 have no place on a geometric scale; those below a thousandth of the values share the first bin.
    start = low if low > 0 else percentile(arrays, 0.1)
    edges = (
        np.geomspace(start, high, BINS + 1)
        if 0 < start < high and high / start > _WIDE
        else np.linspace(low, high, BINS + 1)
    )
    edges[0], edges[-1] = low, high
    below = np.array([[np.searchsorted(array, edge, "left") for edge in edges[1:-1]] for array in arrays]).sum(axis=0)
    counts = np.diff(np.concatenate([[0], below, [count]]))
    return Histogram(edges=tuple((edges * scale).tolist()), counts=tuple(int(n) for n in counts))
