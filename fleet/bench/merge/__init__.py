"""Many clients' results as one measurement."""

from __future__ import annotations

from fleet.bench.measurement import MergeOptions
from fleet.bench.merge.measure import merge_folder
from fleet.bench.merge.options import slo_of

__all__ = ["MergeOptions", "merge_folder", "slo_of"]
