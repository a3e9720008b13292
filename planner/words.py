"""Ways to buy machines, as every report of a plan calls them, and the quota each of them asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CAPACITY_IN_WORDS: Final[Mapping[str, str]] = {
    "spot": "Spot",
    "cud-1y": "a reservation priced by a 1-year commitment",
    "flex-start": "flex-start",
    "calendar": "a calendar reservation",
    "reservation": "a reservation",
    "ladder": "the ladder (reservation, flex-start, Spot)",
}
# Source: AI Hypercomputer, consumption options, 2026-04: Spot and flex-start count as preemptible, calendar mode uses no quota.
QUOTA_IN_WORDS: Final[Mapping[str, str]] = {
    "spot": "{gpus}, preemptible",
    "cud-1y": "{gpus}, held by the reservation",
    "flex-start": "{gpus}, preemptible",
    "calendar": "none: a calendar reservation of {gpus} uses no quota",
    "reservation": "{gpus}, held by the reservation",
    "ladder": "{gpus}, preemptible, for all that the reservation does not hold",
}


def quota_in_words(capacity: str, gpus: int) -> str:
    """The quota to request for so many B200 GPUs bought that way."""
    count = "1 B200 GPU" if gpus == 1 else f"{gpus:,} B200 GPUs"
    return QUOTA_IN_WORDS[capacity].format(gpus=count)
