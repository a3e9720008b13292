"""Pods of a batch: how many a server gets, and how many requests each has in flight."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from settings.stack import Settings

_MARGIN: Final = 1.25
"""Requests in flight for each that a server runs at once: vLLM queues the rest, so servers stay full while a fifth of the pods start, end,
or wait after a failure. Assumed."""
_MOST_IN_FLIGHT: Final = 128
"""Of a pod: threads of one Python process. Assumed."""
_LEAST_PODS: Final = 4
"""Of a server: while one starts, the other three have 0.94 of what the server runs at once."""


@dataclass(frozen=True, slots=True)
class BatchPods:
    """Pods of a batch, the same for every batch of a stack."""

    per_server: int
    """KEDA's trigger has it, so it follows from the stack alone."""
    in_flight: int
    """Requests of one pod."""

    @classmethod
    def of(cls, at_once: int) -> BatchPods:
        """`at_once`: requests that a server runs at once."""
        pods = max(_LEAST_PODS, ceil(_MARGIN * at_once / _MOST_IN_FLIGHT))
        return cls(pods, ceil(_MARGIN * at_once / pods))


def batch_pods(settings: Settings) -> BatchPods:
    """Of a stack."""
    return BatchPods.of(settings.seats or settings.serving.concurrency_per_replica)
