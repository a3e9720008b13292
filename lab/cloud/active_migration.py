"""Simulated active migration of a ComputeClass: pods on a late rung move to an earlier one when it has capacity.

As the cluster autoscaler does it: first a node of an earlier rung, then the old node's pods are evicted, as their disruption budget
allows, and the old node is removed once it is empty. One node at a time. Source: cluster autoscaler, pkg/defrag,
plugins/highprioritymigration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.cloud.agenda import Agenda
from lab.cloud.cluster_view import SHUTTING_DOWN, TO_BE_DELETED
from lab.cloud.node_objects import MIGRATES, RUNG
from lab.cloud.world import World, has_ended, is_ready
from lab.control_plane.api import NODE, POD, ApiRefusedError, Manifest

TRY_SECONDS: Final = 300.0
"""From a failed attempt to the next one. Source: BackoffDuration of that plugin."""
LOOK_SECONDS: Final = 10.0
"""Between two looks at a node that is on its way, or at a budget. Source: cluster autoscaler FAQ, --scan-interval."""
ARRIVAL_SECONDS: Final = 1800.0
"""How long a node may take before the attempt is given up. Assumed."""

OrderBetter = Callable[[Manifest, int], str | None]
"""Orders a node of a rung before this one for a pod; its name, or None without capacity."""


class ActiveMigration:
    """Moves pods off late rungs. `watch` each node of a class that migrates."""

    def __init__(self, world: World, agenda: Agenda, order_better: OrderBetter) -> None:
        self._world, self._agenda, self._order_better = world, agenda, order_better
        self._goal: str | None = None
        """The node that the current attempt waits for."""

    def watch(self, node: Manifest) -> None:
        """Try to empty this node from now on, if its class migrates and an earlier rung exists."""
        annotations = node["metadata"]["annotations"]
        if annotations.get(MIGRATES) == "true" and int(annotations.get(RUNG, 0)) > 0:
            self._agenda.after(TRY_SECONDS, self._try, node["metadata"]["name"], int(annotations[RUNG]))

    def keeps(self, node: str) -> bool:
        """Whether the node is empty because pods are about to move to it."""
        return node == self._goal

    def _try(self, name: str, rung: int) -> None:
        node = self._world.nodes.get(name)
        if node is None or _is_going(node):
            return
        pods = self._pods(name)
        better = self._order_better(pods[0], rung) if pods and self._goal is None else None
        if better is None:
            self._agenda.after(TRY_SECONDS, self._try, name, rung)
            return
        self._goal = better
        self._agenda.after(LOOK_SECONDS, self._vacate, name, rung, better, self._world.clock.now_seconds())

    def _vacate(self, name: str, rung: int, better: str, since_seconds: float) -> None:
        """Evict the old node's pods once the new one is Ready."""
        node, goal = self._world.nodes.get(name), self._world.nodes.get(better)
        late = self._world.clock.now_seconds() - since_seconds > ARRIVAL_SECONDS
        if node is None or late:
            self._goal = None
            if node is not None:
                self._agenda.after(TRY_SECONDS, self._try, name, rung)
            return
        if goal is None or not is_ready(goal):
            self._agenda.after(LOOK_SECONDS, self._vacate, name, rung, better, since_seconds)
            return
        if not _is_going(node):
            self._world.timeline.note("node", name, f"its pods move to an earlier rung, {better}", mood="good")
            taints = [*(node["spec"].get("taints") or ()), {"key": TO_BE_DELETED, "value": "", "effect": "NoSchedule"}]
            self._world.api.patch(NODE, name, None, {"spec": {"taints": taints}})
        if self._evict(name):
            self._goal = None
        else:
            self._agenda.after(LOOK_SECONDS, self._vacate, name, rung, better, since_seconds)

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
    """Whether the node is being removed or preempted."""
    marked = any(taint["key"] == TO_BE_DELETED for taint in node["spec"].get("taints") or ())
    return marked or SHUTTING_DOWN in (node["metadata"].get("annotations") or {})
