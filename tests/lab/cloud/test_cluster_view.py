from __future__ import annotations

from lab.cloud.cluster_view import SHUTTING_DOWN, TO_BE_DELETED, ClusterView
from lab.cloud.node_objects import node_manifest, template
from lab.cloud.offers import Offer
from lab.cloud.world import World
from tests.lab.cloud.fake_world import A4, feed, gpu_pod, make_world, needs, on_node, pod, unschedulable

OFFER = Offer(machine=A4, mode="spot", zone="europe-west4-b")


class Watched:
    """A view and what it said."""

    def __init__(self) -> None:
        self.world: World
        self.world, _ = make_world()
        self.waits = 0
        self.empty: list[str] = []
        self.arrived: list[str] = []
        self.view = ClusterView(self.world, self._wait, lambda name, _: self.empty.append(name), self.arrived.append)

    def _wait(self) -> None:
        self.waits += 1

    def node(self, number: int = 1) -> str:
        made = node_manifest(OFFER, template(OFFER, needs(gpu_pod())), number=number, cluster="c", project="p")
        feed(self.world.nodes, "added", made)
        name: str = made["metadata"]["name"]
        return name


def test_the_same_words_again_are_no_news_and_other_words_are() -> None:
    watched, server = Watched(), gpu_pod()
    for said in ("no node", "no node", "unbound volume"):
        feed(watched.world.pods, "modified", unschedulable(server, said))
    assert watched.waits == 2
    assert [one.said for one in watched.view.waiting()] == ["unbound volume"]


def test_pods_like_one_without_a_node_wait_too_before_the_scheduler_comes_round_to_them() -> None:
    watched = Watched()
    feed(watched.world.pods, "added", gpu_pod("server-1"))
    feed(watched.world.pods, "added", pod("other", {"cpu": "1"}))
    assert watched.view.waiting() == []
    feed(watched.world.pods, "added", unschedulable(gpu_pod("server-2"), "no node"))
    assert [(one.key[1], one.said) for one in watched.view.waiting()] == [
        ("server-2", "no node"),
        ("server-1", "no node"),
    ]
    gone = gpu_pod("server-1")
    feed(watched.world.pods, "modified", on_node(gone, "node"))
    assert [one.key[1] for one in watched.view.waiting()] == ["server-2"]


def test_a_pod_that_waits_keeps_its_place_whatever_else_is_written_on_it() -> None:
    watched = Watched()
    first = unschedulable(gpu_pod("server-1"))
    for one in (first, unschedulable(gpu_pod("server-2")), unschedulable(first, "other words")):
        feed(watched.world.pods, "modified", one)
    assert [one.key[1] for one in watched.view.waiting()] == ["server-1", "server-2"]


def test_a_gated_pod_is_not_waiting_for_a_machine() -> None:
    watched, gated = Watched(), unschedulable(gpu_pod())
    gated["status"]["conditions"][0]["reason"] = "SchedulingGated"
    feed(watched.world.pods, "added", gated)
    assert watched.view.waiting() == []


def test_a_pod_that_is_being_deleted_still_takes_its_room() -> None:
    watched = Watched()
    name = watched.node()
    leaving = on_node(gpu_pod(), name)
    leaving["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    feed(watched.world.pods, "added", leaving)
    assert watched.view.rooms()[0].free.gpus == 0


def test_cordoned_and_leaving_nodes_are_no_room_but_still_count_as_machines() -> None:
    watched = Watched()
    names = [watched.node(number) for number in (1, 2, 3, 4)]
    changes = (
        {"unschedulable": True},
        {"taints": [{"key": TO_BE_DELETED, "effect": "NoSchedule"}]},
    )
    for name, change in zip(names, changes, strict=False):
        node = watched.world.nodes.objects["", name]
        feed(watched.world.nodes, "modified", {**node, "spec": {**node["spec"], **change}})
    leaving = watched.world.nodes.objects["", names[2]]
    metadata = {**leaving["metadata"], "annotations": {**leaving["metadata"]["annotations"], SHUTTING_DOWN: "true"}}
    feed(watched.world.nodes, "modified", {**leaving, "metadata": metadata})
    assert len(watched.view.rooms()) == 1
    assert watched.view.in_use() == {("spot", ""): 4}
    feed(watched.world.nodes, "deleted", watched.world.nodes.objects["", names[0]])
    assert watched.view.in_use() == {("spot", ""): 3}


def test_taints_of_a_nodes_conditions_do_not_make_it_another_kind() -> None:
    watched = Watched()
    name = watched.node()
    kind = watched.view.rooms()[0].template
    node = watched.world.nodes.objects["", name]
    taints = [*node["spec"]["taints"], {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    feed(watched.world.nodes, "modified", {**node, "spec": {**node["spec"], "taints": taints}})
    assert watched.view.rooms()[0].template is kind


def test_nodes_that_others_made_are_room_and_no_machine_of_google() -> None:
    watched = Watched()
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "kind-worker", "labels": {"a": "b"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"}},
    }
    feed(watched.world.nodes, "added", node)
    assert len(watched.view.rooms()) == 1
    assert watched.view.in_use() == {}
    assert watched.empty == []


def test_an_empty_node_that_a_waiting_pod_could_use_is_wanted() -> None:
    watched = Watched()
    name = watched.node()
    assert not watched.view.is_wanted(name)
    feed(watched.world.pods, "added", unschedulable(pod("small", {"cpu": "1"})))
    assert not watched.view.is_wanted(name)  # it does not tolerate the GPU's taint
    feed(watched.world.pods, "added", unschedulable(gpu_pod()))
    assert watched.view.is_wanted(name)
