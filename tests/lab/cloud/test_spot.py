from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.cloud.cluster_view import SHUTTING_DOWN
from lab.cloud.node_objects import node_manifest, template
from lab.cloud.offers import Offer
from lab.cloud.spot import IMPENDING_TERMINATION, shut_down
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
    preemption = shut_down(world, [node])
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
    preemption = shut_down(world, [node])
    assert preemption.wait(10)
    _, failed = pod_patches(api, "server-0")
    assert failed["phase"] == "Failed"
    assert conditions(failed)["Ready"]["status"] == "False"
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert api.deleted == [("Node", node), ("Pod", "server-0")]
    assert api.last_at["Pod", "server-0", "patched"] - preemption.notice_at_seconds >= 15
    assert api.last_at["Node", node, "deleted"] - preemption.notice_at_seconds >= 30


def test_a_node_whose_kubelet_waits_longer_leaves_its_pods_the_rest() -> None:
    world, api = make_world(600.0)
    offer = replace(OFFER, shutdown_seconds=120, critical_seconds=15)
    node = node_manifest(offer, template(offer, needs(gpu_pod())), number=1, cluster="c", project="p")
    feed(world.nodes, "added", node)
    feed(world.pods, "added", on_node(gpu_pod("long", terminationGracePeriodSeconds=600), node["metadata"]["name"]))
    preemption = shut_down(world, [node["metadata"]["name"]])
    assert preemption.wait(10)
    assert api.last_at["Pod", "long", "patched"] - preemption.notice_at_seconds >= 105
    assert api.last_at["Node", node["metadata"]["name"], "deleted"] - preemption.notice_at_seconds >= 120


def test_a_shorter_grace_and_a_shorter_notice_are_kept() -> None:
    world, api = make_world(600.0)
    node = node_manifest(OFFER, template(OFFER, needs(gpu_pod())), number=1, cluster="c", project="p")
    name = node["metadata"]["name"]
    feed(world.nodes, "added", node)
    feed(world.pods, "added", on_node(gpu_pod("brief", terminationGracePeriodSeconds=2), name))
    feed(world.pods, "added", on_node(gpu_pod("long", terminationGracePeriodSeconds=600), name))
    preemption = shut_down(world, [name], notice_seconds=10)
    assert preemption.wait(10)
    brief, long = (api.last_at["Pod", pod, "patched"] - preemption.notice_at_seconds for pod in ("brief", "long"))
    assert 2 <= brief <= long
    assert long >= 10
    assert len(pod_patches(api, "long")) == 2
