from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.cloud.cluster_view import SHUTTING_DOWN
from lab.cloud.node_objects import node_manifest, template
from lab.cloud.offers import Offer
from lab.cloud.spot import IMPENDING_TERMINATION, preempt
from lab.cloud.world import World
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import A4, FakeApi, feed, gpu_pod, make_world, needs, on_node

OFFER = Offer(machine=A4, mode="spot", zone="europe-west4-b")
READY = [{"type": "Ready", "status": "True"}]


def served(count: int = 1, speed: float = 600.0) -> tuple[World, FakeApi, list[str]]:
    """Nodes with a server each."""
    world, api = make_world(speed)
    names = []
    for number in range(count):
        node = node_manifest(OFFER, template(OFFER, needs(gpu_pod())), number=number, cluster="c", project="p")
        names.append(node["metadata"]["name"])
        feed(world.nodes, "added", node)
        feed(world.pods, "added", on_node(gpu_pod(f"server-{number}"), names[-1], conditions=READY))
    return world, api, names


def pod_patches(api: FakeApi, name: str) -> list[Manifest]:
    return [body["status"] for kind, one, body, sub in api.patches if (kind, one, sub) == ("Pod", name, "status")]


def conditions(status: Manifest) -> dict[str, Any]:
    return {condition["type"]: condition for condition in status.get("conditions", ())}


def test_at_the_notice_node_and_pods_know_and_still_run() -> None:
    world, api, (node,) = served(speed=1.0)
    preemption = preempt(world, [node])
    assert not preemption.wait(0)
    assert preemption.pods == [("vllm", "server-0")]
    marked = world.nodes.get(node)
    assert marked is not None
    assert marked["metadata"]["annotations"][SHUTTING_DOWN] == "true"
    assert marked["spec"]["taints"][-1]["key"] == IMPENDING_TERMINATION
    (unready,) = [body for kind, _, body, sub in api.patches if (kind, sub) == ("Node", "status")]
    assert unready["status"]["conditions"][0]["message"] == "node is shutting down"
    (told,) = pod_patches(api, "server-0")
    assert conditions(told)["DisruptionTarget"]["reason"] == "TerminationByKubelet"
    assert "phase" not in told
    assert told["reason"] == "Terminated"


def test_pods_end_after_fifteen_seconds_and_the_machine_after_thirty() -> None:
    world, api, (node,) = served()
    preemption = preempt(world, [node])
    assert preemption.wait(10)
    _, failed = pod_patches(api, "server-0")
    assert failed["phase"] == "Failed"
    assert conditions(failed)["Ready"]["status"] == "False"
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert api.deleted == [("Node", node), ("Pod", "server-0")]
    moments = {moment.text: moment.at_seconds - preemption.notice_at_seconds for moment in world.timeline.moments()}
    assert 0 <= moments["preempted: 30 s notice"] <= moments["ended by the node's shutdown"] <= moments["gone"]
    assert moments["ended by the node's shutdown"] >= 15
    assert moments["gone"] >= 30


def test_a_node_whose_kubelet_waits_longer_leaves_its_pods_the_rest() -> None:
    world, _ = make_world(600.0)
    offer = replace(OFFER, shutdown_seconds=120, critical_seconds=15)
    node = node_manifest(offer, template(offer, needs(gpu_pod())), number=1, cluster="c", project="p")
    feed(world.nodes, "added", node)
    feed(world.pods, "added", on_node(gpu_pod("long", terminationGracePeriodSeconds=600), node["metadata"]["name"]))
    preemption = preempt(world, [node["metadata"]["name"]])
    assert preemption.wait(10)
    at = {moment.text: moment.at_seconds - preemption.notice_at_seconds for moment in world.timeline.moments()}
    assert "preempted: 120 s notice" in at
    assert at["ended by the node's shutdown"] >= 105
    assert at["gone"] >= 120


def test_a_shorter_grace_and_a_shorter_notice_are_kept() -> None:
    world, api = make_world(600.0)
    node = node_manifest(OFFER, template(OFFER, needs(gpu_pod())), number=1, cluster="c", project="p")
    name = node["metadata"]["name"]
    feed(world.nodes, "added", node)
    feed(world.pods, "added", on_node(gpu_pod("brief", terminationGracePeriodSeconds=2), name))
    feed(world.pods, "added", on_node(gpu_pod("long", terminationGracePeriodSeconds=600), name))
    preemption = preempt(world, [name], notice_seconds=10)
    assert preemption.wait(10)
    ended = {
        moment.subject: moment.at_seconds - preemption.notice_at_seconds
        for moment in world.timeline.moments()
        if moment.text.startswith("ended")
    }
    assert 2 <= ended["brief"] <= ended["long"]
    assert ended["long"] >= 10
    assert len(pod_patches(api, "long")) == 2
