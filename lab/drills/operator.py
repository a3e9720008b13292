"""What an operator does in a drill, as the runbook says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lab.control_plane.api import NODE, ApiRefusedError

if TYPE_CHECKING:
    from lab.stage.stage import Stage

EVICTION_RETRY_SECONDS: Final = 0.5
"""From a refused eviction to the next attempt. `kubectl drain` waits five (pkg/cmd/drain, EvictErrorRetryDelay)."""


def cordon(stage: Stage, node: str) -> None:
    """`kubectl cordon`."""
    stage.api.patch(NODE, node, None, {"spec": {"unschedulable": True}})


def evict(stage: Stage, name: str) -> None:
    """Evict a pod as `kubectl drain` does: while its disruption budget refuses, again and again. It may go on until its grace ends."""
    refused: list[str] = []

    def is_on_its_way() -> bool:
        try:
            stage.api.evict(stage.namespace, name)
        except ApiRefusedError as refusal:
            if refusal.status != 429:
                return _is_gone(refusal)
            refused.append(refusal.message)
            time.sleep(EVICTION_RETRY_SECONDS)
            return False
        return True

    stage.until(f"the eviction of {name}", is_on_its_way, why=lambda: refused[-1])


def _is_gone(refusal: ApiRefusedError) -> bool:
    if refusal.status != 404:
        raise refusal
    return True
