"""Simulated end of a node's run duration, and the recycling of a ComputeClass: its pods move to another node ahead of that.

Source of the recycling: cluster autoscaler, pkg/defrag/plugins/recycling. It reads the lead time from a label that nodes get from
their ComputeClass only (injection.go, FlexStartGenerator). Assumed: at the end pods have the kubelet's usual 15 s, as on Spot.
"""

from __future__ import annotations

from typing import Final

from facts.capacity import FLEX_START_MAX_SECONDS
from lab.cloud.agenda import Agenda
from lab.cloud.offers import FLEX_START, MAX_RUN, RECYCLE_LEAD
from lab.cloud.pod_moves import Move, PodMoves
from lab.cloud.spot import shut_down
from lab.cloud.world import World
from lab.control_plane.api import Manifest

TRY_SECONDS: Final = 60.0
"""From a failed attempt to the next one. Source: BackoffDuration of that plugin."""
LEAST_LEAD_WALL_SECONDS: Final = 90.0
"""Minimum wall time in which pods can move before their node ends: Kubernetes' controllers, which move them, run in wall time."""


class RunDuration:
    """Ends nodes, and moves pods off them before. `watch` each node."""

    def __init__(self, world: World, agenda: Agenda, moves: PodMoves) -> None:
        self._world, self._agenda, self._moves = world, agenda, moves
        self._ends: dict[str, float] = {}

    def watch(self, node: Manifest) -> None:
        """End this node after its run duration, if it has one."""
        labels = node["metadata"]["labels"]
        longest = FLEX_START_MAX_SECONDS if FLEX_START in labels else None
        seconds = labels.get(MAX_RUN, longest)
        if seconds is not None:
            self._plan(node, float(seconds))

    def ends_in(self, name: str, seconds: float) -> float:
        """Let the node be as old as it is when it has this long left; returns when it ends. Raises KeyError if it does not exist."""
        node = self._world.nodes.get(name)
        if node is None:
            raise KeyError(f"node {name} does not exist")
        return self._plan(node, seconds)

    def _plan(self, node: Manifest, seconds: float) -> float:
        name, lead = node["metadata"]["name"], node["metadata"]["labels"].get(RECYCLE_LEAD)
        clock = self._world.clock
        moves_after = None if lead is None else max(0.0, seconds - float(lead))
        if moves_after is not None:
            seconds = max(seconds, moves_after + LEAST_LEAD_WALL_SECONDS * clock.speed)
        self._ends[name] = end = clock.now_seconds() + seconds
        self._agenda.after(seconds, self._end, name, end)
        if moves_after is not None:
            self._agenda.after(moves_after, self._recycle, name, end)
        return end

    def _recycle(self, name: str, end: float) -> None:
        if self._ends.get(name) == end:
            self._moves.start(Move(node=name, try_seconds=TRY_SECONDS))

    def _end(self, name: str, end: float) -> None:
        if self._ends.get(name) == end and self._world.nodes.get(name) is not None:
            shut_down(self._world, [name])
