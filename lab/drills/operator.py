"""What an operator does in a drill, as the runbook says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.control_plane.api import NODE, POD

if TYPE_CHECKING:
    from lab.stage.stage import Stage


def cordon(stage: Stage, node: str) -> None:
    """`kubectl cordon`."""
    stage.api.patch(NODE, node, None, {"spec": {"unschedulable": True}})


def replaced(stage: Stage, names: Sequence[str], servers: int, what: str) -> float:
    """`kubectl delete pod --grace-period=30` of replicas; returns when that many are Ready again. `what` names them."""
    for name in names:
        stage.api.delete(POD, name, stage.namespace, grace_seconds=30)
    stage.until(f"{what} to go", lambda: not any(stage.world.pods.get(name, stage.namespace) for name in names), 900)
    return stage.until_ready(servers)
