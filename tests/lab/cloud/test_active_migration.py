"""Pods of a ComputeClass return to an earlier rung, and its empty nodes leave by its own delay."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from lab.cloud.active_migration import TRY_SECONDS
from lab.cloud.cluster_view import TO_BE_DELETED
from lab.cloud.offers import COMPUTE_CLASS_KIND, RESERVATION, SPOT
from lab.cloud.provisioner import Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import GKE, feed, gpu_pod, make_world, on_node, unschedulable, until

ZONE = "europe-west4-b"
RUNG = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}
RESERVED = {"affinity": "Specific", "specific": [{"name": "block", "zones": [ZONE]}]}
CLASS: dict[str, Any] = {
    "nodePoolAutoCreation": {"enabled": True},
    "priorities": [{**RUNG, "reservations": RESERVED}, {**RUNG, "spot": True}],
    "activeMigration": {"optimizeRulePriority": True},
    "autoscalingPolicy": {"consolidationDelayMinutes": 1},
}


class Play(AbstractContextManager["Play"]):
    """A server on the class's last rung, whose reservation is full."""

    def __init__(self, speed: float = 6000.0, **changed: Any) -> None:
        self.world, self.api = make_world(speed)
        self.api.objects[COMPUTE_CLASS_KIND, "rungs"] = {"spec": {**CLASS, **changed}}
        self.stock = Stock()
        self.stock.reserve("block", nodes=0, zone=ZONE)
        self.provisioner = Provisioner(self.world, self.stock, Timings(), cluster="fleet", project="fleet-tests")

    def __enter__(self) -> Play:
        self.provisioner.__enter__()
        self.pod = gpu_pod(nodeSelector={f"{GKE}/compute-class": "rungs"})
        feed(self.world.pods, "modified", unschedulable(self.pod))
        (self.spot,) = self.nodes(1)
        assert self.spot["metadata"]["labels"][SPOT] == "true"
        feed(self.world.pods, "modified", on_node(self.pod, self.spot["metadata"]["name"]))
        return self

    def __exit__(self, *error: object) -> None:
        self.provisioner.__exit__(*error)

    def nodes(self, count: int) -> list[Manifest]:
        found: list[Manifest] = until(lambda: len(self.api.nodes) >= count and self.api.nodes, f"{count} nodes")
        return found

    def become_ready(self, node: Manifest) -> None:
        node["status"]["conditions"][0]["status"] = "True"
        feed(self.world.nodes, "modified", node)

    def taints(self, node: Manifest) -> set[str]:
        there = self.world.nodes.get(node["metadata"]["name"])
        return set() if there is None else {taint["key"] for taint in there["spec"]["taints"]}


def test_a_node_of_the_earlier_rung_is_ready_before_the_pod_is_evicted() -> None:
    with Play() as play:
        play.world.clock.sleep(2 * TRY_SECONDS)
        assert len(play.api.nodes) == 1
        play.stock.reserve("block", nodes=1, zone=ZONE)
        reserved = play.nodes(2)[1]
        assert reserved["metadata"]["labels"][RESERVATION] == "block"
        assert (play.api.evicted, TO_BE_DELETED in play.taints(play.spot)) == ([], False)
        play.become_ready(reserved)
        assert until(lambda: play.api.evicted) == ["server-0"]
        assert TO_BE_DELETED in play.taints(play.spot)


def test_the_disruption_budget_delays_the_eviction_and_the_new_node_stays_meanwhile() -> None:
    with Play() as play:
        play.api.refuse_evictions = True
        play.stock.reserve("block", nodes=1, zone=ZONE)
        reserved = play.nodes(2)[1]
        play.become_ready(reserved)
        play.world.clock.sleep(600)
        assert play.world.nodes.get(reserved["metadata"]["name"]) is not None
        play.api.refuse_evictions = False
        assert until(lambda: play.api.evicted) == ["server-0"]


def test_a_pod_stays_where_no_earlier_rung_has_a_node() -> None:
    with Play() as play:
        play.stock.reserve("block", nodes=1, zone="europe-west4-a")
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 1


def test_a_class_that_does_not_migrate_keeps_its_pods_on_the_late_rung() -> None:
    with Play(activeMigration={"optimizeRulePriority": False}) as play:
        play.stock.reserve("block", nodes=1, zone=ZONE)
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 1


@pytest.mark.parametrize(("policy", "soon"), [({"consolidationDelayMinutes": 1}, True), ({}, False)])
def test_an_empty_node_leaves_by_its_classs_delay(policy: dict[str, int], soon: bool) -> None:
    with Play(speed=120.0, autoscalingPolicy=policy) as play:
        emptied = play.world.clock.now_seconds()
        feed(play.world.pods, "deleted", on_node(play.pod, play.spot["metadata"]["name"]))
        until(lambda: play.world.nodes.get(play.spot["metadata"]["name"]) is None, "the node's removal")
        assert (play.world.clock.now_seconds() - emptied < 600) == soon
