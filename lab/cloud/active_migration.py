"""Simulated active migration of a ComputeClass: pods on a late rung move to an earlier one when it has capacity.

Source: cluster autoscaler, pkg/defrag/plugins/highprioritymigration.
"""

from __future__ import annotations

from typing import Final

from lab.cloud.agenda import Agenda
from lab.cloud.node_objects import MIGRATES, RUNG
from lab.cloud.pod_moves import Move, PodMoves
from lab.control_plane.api import Manifest

TRY_SECONDS: Final = 300.0
"""From a failed attempt to the next one. Source: BackoffDuration of that plugin."""


class ActiveMigration:
    """Moves pods off late rungs. `watch` each node of a class that migrates."""

    def __init__(self, agenda: Agenda, moves: PodMoves) -> None:
        self._agenda, self._moves = agenda, moves

    def watch(self, node: Manifest) -> None:
        """Try to empty this node from now on, if its class migrates and an earlier rung exists."""
        name, annotations = node["metadata"]["name"], node["metadata"]["annotations"]
        rung = int(annotations.get(RUNG, 0))
        if annotations.get(MIGRATES) == "true" and rung > 0:
            move = Move(node=name, before=rung, try_seconds=TRY_SECONDS)
            self._agenda.after(TRY_SECONDS, self._moves.start, move)
