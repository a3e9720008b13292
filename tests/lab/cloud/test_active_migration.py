"""Pods of a ComputeClass return to an earlier rung, and its empty nodes leave by its own delay."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cloud import pod_moves
from lab.cloud.active_migration import TRY_SECONDS
from lab.cloud.cluster_view import TO_BE_DELETED
from lab.cloud.offers import RESERVATION, SPOT
from tests.lab.cloud.class_play import RUNG, ZONE, Play
from tests.lab.cloud.fake_world import feed, on_node, until

RESERVED = {"affinity": "Specific", "specific": [{"name": "block", "zones": [ZONE]}]}
CLASS: dict[str, Any] = {
    "nodePoolAutoCreation": {"enabled": True},
    "priorities": [{**RUNG, "reservations": RESERVED}, {**RUNG, "spot": True}],
    "activeMigration": {"optimizeRulePriority": True},
    "autoscalingPolicy": {"consolidationDelayMinutes": 1},
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine does not make a node late."""
    monkeypatch.setattr(pod_moves, "ARRIVAL_SECONDS", 1e6)


def on_last_rung(speed: float = 6000.0, **changed: Any) -> Play:
    """A server on the class's last rung, whose reservation is full."""
    play = Play({**CLASS, **changed}, speed=speed)
    play.stock.reserve("block", nodes=0, zone=ZONE)
    return play


def test_a_node_of_the_earlier_rung_is_ready_before_the_pod_is_evicted() -> None:
    with on_last_rung() as play:
        (spot,) = play.first
        assert spot["metadata"]["labels"][SPOT] == "true"
        play.world.clock.sleep(2 * TRY_SECONDS)
        assert len(play.api.nodes) == 1
        play.stock.reserve("block", nodes=1, zone=ZONE)
        reserved = play.nodes(2)[1]
        assert reserved["metadata"]["labels"][RESERVATION] == "block"
        assert (play.api.evicted, TO_BE_DELETED in play.taints(spot)) == ([], False)
        play.become_ready(reserved)
        assert until(lambda: play.api.evicted) == ["server-0"]
        assert TO_BE_DELETED in play.taints(spot)


def test_the_disruption_budget_delays_the_eviction_and_the_new_node_stays_however_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with on_last_rung() as play:
        play.api.refuse_evictions = True
        play.stock.reserve("block", nodes=1, zone=ZONE)
        reserved = play.nodes(2)[1]
        play.become_ready(reserved)
        until(lambda: TO_BE_DELETED in play.taints(play.first[0]), "the old node to be given up")
        monkeypatch.setattr(pod_moves, "ARRIVAL_SECONDS", 0.0)
        play.world.clock.sleep(600)
        assert play.is_there(reserved)
        play.api.refuse_evictions = False
        assert until(lambda: play.api.evicted) == ["server-0"]


def test_a_node_that_does_not_come_is_given_up_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_moves, "ARRIVAL_SECONDS", 0.0)
    with on_last_rung() as play:
        play.stock.reserve("block", nodes=2, zone=ZONE)
        assert {node["metadata"]["labels"][RESERVATION] for node in play.nodes(3)[1:]} == {"block"}
        assert play.api.evicted == []


def test_a_pod_stays_where_no_earlier_rung_has_a_node() -> None:
    with on_last_rung() as play:
        play.stock.reserve("block", nodes=1, zone="europe-west4-a")
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 1


def test_a_class_that_does_not_migrate_keeps_its_pods_on_the_late_rung() -> None:
    with on_last_rung(activeMigration={"optimizeRulePriority": False}) as play:
        play.stock.reserve("block", nodes=1, zone=ZONE)
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 1


@pytest.mark.parametrize(("policy", "soon"), [({"consolidationDelayMinutes": 1}, True), ({}, False)])
def test_an_empty_node_leaves_by_its_classs_delay(policy: dict[str, int], soon: bool) -> None:
    with on_last_rung(speed=120.0, autoscalingPolicy=policy) as play:
        emptied = play.world.clock.now_seconds()
        (pod,), (spot,) = play.pods, play.first
        feed(play.world.pods, "deleted", on_node(pod, spot["metadata"]["name"]))
        until(lambda: not play.is_there(spot), "the node's removal")
        assert (play.world.clock.now_seconds() - emptied < 600) == soon
