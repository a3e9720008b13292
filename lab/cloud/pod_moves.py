"""Simulated moves of a node's pods to another node, before they lose theirs.

As the cluster autoscaler does it: first the other node, then the old node's pods are evicted, as their disruption budget allows, and
the old node is removed once it is empty. One node at a time. Source: cluster autoscaler, pkg/defrag.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.cloud.agenda import Agenda
from lab.cloud.cluster_view import SHUTTING_DOWN, TO_BE_DELETED
from lab.cloud.world import World, has_ended, is_ready
from lab.control_plane.api import NODE, POD, ApiRefusedError, Manifest

LOOK_SECONDS: Final = 10.0
"""Between two looks at a node that is on its way, or at a budget. Source: cluster autoscaler FAQ, --scan-interval."""
ARRIVAL_SECONDS: Final = 1800.0
"""How long a node may take before the attempt is given up. Assumed."""

OrderNode = Callable[[Manifest, int | None], str | None]
"""Orders a node for a pod that runs: of a priority before this index, or of any with None. Returns its name, or None without capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A node whose pods shall move."""

    node: str
    before: int | None = None
    """Only a node of a priority before this index of the ComputeClass will do. None: a node of any."""
    try_seconds: float
    """From a failed attempt to the next one."""


class PodMoves:
    """Moves pods to another node."""

    def __init__(self, world: World, agenda: Agenda, order_node: OrderNode) -> None:
        self._world, self._agenda, self._order_node = world, agenda, order_node
        self._goal: str | None = None
        """The node that the current attempt waits for."""
        self._choosing = threading.Lock()

    def keeps(self, node: str) -> bool:
        """Whether the node is empty because pods are about to move to it."""
        return node == self._goal

    def start(self, move: Move) -> None:
        """Try to empty this node until it is empty or gone."""
        node = self._world.nodes.get(move.node)
        if node is None or _is_going(node):
            return
        pods = self._pods(move.node)
        with self._choosing:
            goal = self._order_node(pods[0], move.before) if pods and self._goal is None else None
            self._goal = goal or self._goal
        if goal is None:
            self._agenda.after(move.try_seconds, self.start, move)
            return
        self._agenda.after(LOOK_SECONDS, self._vacate, move, goal, self._world.clock.now_seconds())

    def _vacate(self, move: Move, goal: str, since_seconds: float) -> None:
        """Evict the old node's pods once the other one is Ready."""
        node, there = self._world.nodes.get(move.node), self._world.nodes.get(goal)
        if node is None:
            self._goal = None
            return
        if there is None or not is_ready(there):
            if self._world.clock.now_seconds() - since_seconds > ARRIVAL_SECONDS:
                self._goal = None
                self._agenda.after(move.try_seconds, self.start, move)
            else:
                self._agenda.after(LOOK_SECONDS, self._vacate, move, goal, since_seconds)
            return
        if not _is_going(node):
            taints = [*(node["spec"].get("taints") or ()), {"key": TO_BE_DELETED, "value": "", "effect": "NoSchedule"}]
            self._world.api.patch(NODE, move.node, None, {"spec": {"taints": taints}})
        if self._evict(move.node):
            self._goal = None
        else:
            self._agenda.after(LOOK_SECONDS, self._vacate, move, goal, since_seconds)

    def _evict(self, node: str) -> bool:
        """Evict what the budget allows; whether every pod is on its way out."""
        done = True
        for pod in self._pods(node):
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            try:
                self._world.api.evict(metadata["namespace"], metadata["name"])
            except ApiRefusedError as refusal:
                if refusal.status not in (404, 429):
                    raise
                done = done and refusal.status == 404
        return done

    def _pods(self, node: str) -> list[Manifest]:
        pods = self._world.api.list_all(POD, field_selector=f"spec.nodeName={node}")
        return [pod for pod in pods if not has_ended(pod)]


def _is_going(node: Manifest) -> bool:
    """Whether the node is being removed or shuts down."""
    marked = any(taint["key"] == TO_BE_DELETED for taint in node["spec"].get("taints") or ())
    return marked or SHUTTING_DOWN in (node["metadata"].get("annotations") or {})
