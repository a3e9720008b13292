"""Exact statistics of values that lie in several arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet.bench.measurement import Distribution


def distribution(pools: Sequence[Any], scale: float = 1.0) -> Distribution | None:
    """Statistics of all values times `scale`; None without a value. Percentiles are numpy's linear interpolation."""
    values = np.sort(np.concatenate(pools)) if pools else np.empty(0)
    if not len(values):
        return None
    # Of sorted values: numpy would look for each percentile anew.
    places = np.concatenate([np.arange(101.0), [99.9]]) / 100 * (len(values) - 1)
    below = places.astype(np.int64)
    low, high = (values[index].astype(np.float64) for index in (below, np.minimum(below + 1, len(values) - 1)))
    found = (scale * (low + (high - low) * (places - below))).tolist()
    return Distribution(
        count=len(values),
        mean=scale * float(values.mean(dtype=np.float64)),
        p50=found[50],
        p90=found[90],
        p99=found[99],
        p999=found[101],
        max=found[100],
        curve=tuple(found[:101]),
    )
