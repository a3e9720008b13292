"""A flex-start node ends with its run duration; pods of a ComputeClass that recycles move to another node ahead of that."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cloud import pod_moves
from lab.cloud.cluster_view import TO_BE_DELETED
from lab.cloud.offers import FLEX_START, MAX_RUN, RECYCLE_LEAD, SPOT
from lab.cloud.run_duration import LEAST_LEAD_WALL_SECONDS, TRY_SECONDS
from tests.lab.cloud.class_play import RUNG, Play
from tests.lab.cloud.fake_world import GKE, until

WEEK, DAY = 604_800, 86_400
RECYCLED = {"enabled": True, "nodeRecycling": {"leadTimeSeconds": DAY}}
"""Pods move at once, and no test waits for the end of such a node."""
PLAIN = {f"{GKE}/gke-accelerator": "nvidia-b200", FLEX_START: "true", MAX_RUN: str(WEEK)}
UNTIMED = {f"{GKE}/gke-accelerator": "nvidia-b200", FLEX_START: "true"}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine does not make a node late."""
    monkeypatch.setattr(pod_moves, "ARRIVAL_SECONDS", 1e6)


def on_flex_start(flex_start: Any = None, **changed: Any) -> Play:
    rungs = [{**RUNG, "flexStart": flex_start or RECYCLED, "maxRunDurationSeconds": WEEK}, {**RUNG, "spot": True}]
    return Play({"nodePoolAutoCreation": {"enabled": True}, "priorities": rungs}, **changed)


def test_a_node_says_when_it_ends_and_when_its_pods_move() -> None:
    with on_flex_start() as play:
        labels = play.first[0]["metadata"]["labels"]
        assert (labels[MAX_RUN], labels[RECYCLE_LEAD]) == (str(WEEK), str(DAY))
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert (len(play.api.nodes), play.api.evicted) == (1, [])


def test_another_node_is_ready_before_the_pod_is_evicted() -> None:
    with on_flex_start() as play:
        (old,) = play.first
        began, clock = play.world.clock.now_seconds(), play.world.clock
        ends = play.provisioner.ends_in(old["metadata"]["name"], DAY)
        # A day is too short for controllers that run in wall time.
        assert ends - began >= LEAST_LEAD_WALL_SECONDS * clock.speed > DAY
        new = play.nodes(2)[1]
        assert (play.api.evicted, TO_BE_DELETED in play.taints(old)) == ([], False)
        play.become_ready(new)
        assert until(lambda: play.api.evicted) == ["server-0"]
        assert TO_BE_DELETED in play.taints(old)


def test_a_node_of_a_later_rung_will_do() -> None:
    with on_flex_start() as play:
        play.stock.flex_start_nodes = 1
        play.provisioner.ends_in(play.first[0]["metadata"]["name"], DAY)
        assert play.nodes(2)[1]["metadata"]["labels"][SPOT] == "true"


def test_without_capacity_it_tries_again() -> None:
    with on_flex_start() as play:
        play.stock.quota_nodes = 1
        play.provisioner.ends_in(play.first[0]["metadata"]["name"], DAY)
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 1
        play.stock.quota_nodes = None
        play.become_ready(play.nodes(2)[1])
        assert until(lambda: play.api.evicted) == ["server-0"]


def test_nodes_of_the_same_age_are_replaced_one_after_the_other() -> None:
    with on_flex_start(servers=2) as play:
        for node in play.first:
            play.provisioner.ends_in(node["metadata"]["name"], DAY)
        third = play.nodes(3)[2]
        play.world.clock.sleep(3 * TRY_SECONDS)
        assert len(play.api.nodes) == 3
        play.become_ready(third)
        play.become_ready(play.nodes(4)[3])
        assert until(lambda: len(play.api.evicted) == 2 and sorted(play.api.evicted)) == ["server-0", "server-1"]


@pytest.mark.parametrize(
    ("flex_start", "selector"),
    [
        pytest.param({"enabled": True}, None, id="a class without recycling"),
        pytest.param(None, PLAIN, id="the pod's selectors"),
        pytest.param(None, UNTIMED, id="the pod's selectors without a duration"),
    ],
)
def test_elsewhere_a_node_ends_with_its_pods(flex_start: Any, selector: dict[str, str] | None) -> None:
    with on_flex_start(flex_start, selector=selector) as play:
        (node,) = play.first
        play.provisioner.ends_in(node["metadata"]["name"], 60)
        until(lambda: not play.is_there(node), "the node's end")
        assert (play.failed(), play.api.evicted) == (["server-0"], [])
