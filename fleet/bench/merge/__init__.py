"""Many clients' results as one measurement."""

from __future__ import annotations

from fleet.bench.merge.measure import merge_folder

__all__ = ["merge_folder"]
