"""The conditions in which a replica of a running fleet starts."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from facts.machines import DEFAULT_MACHINE
from facts.time_to_serve import Start
from settings.sections.capacity import has_flex_start

if TYPE_CHECKING:
    from settings.stack import Settings


def replica_start(settings: Settings) -> Start:
    """Start of one more replica of a running fleet."""
    weights = settings.weights
    return Start(
        weights_gb=settings.serving.model.size_gb,
        volume_gib=weights.size_gib,
        volume_mibps=weights.throughput_mibps,
        readers=max(1, ceil(settings.replicas / len(settings.zones))),
        platform_exists=True,
        weights_exist=True,
        weights_from_hub=not weights.has_volume,
        flex_start=has_flex_start(settings.capacity),
        gpus=settings.gpus_per_replica,
        articles_machine=settings.machine == DEFAULT_MACHINE,
    )
