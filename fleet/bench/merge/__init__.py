"""Many clients' results as one measurement."""

from __future__ import annotations

from benchmark.merge.measure import merge_folder
from benchmark.merge.options import MergeOptions, slo_of

__all__ = ["MergeOptions", "merge_folder", "slo_of"]
