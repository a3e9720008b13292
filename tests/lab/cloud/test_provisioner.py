from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lab.cloud.cluster_view import TO_BE_DELETED
from lab.cloud.provisioner import EVENTS_PER_SCAN, Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.control_plane.api import STORAGE_CLASS, Manifest
from tests.lab.cloud.fake_world import (
    feed,
    gpu_pod,
    make_world,
    on_node,
    pod,
    unschedulable,
    until,
)


class Play:
    """A provisioner, and pods that a test puts before it."""

    def __init__(self) -> None:
        self.world, self.api = make_world()
        self.stock = Stock()
        self.provisioner = Provisioner(self.world, self.stock, Timings(), cluster="fleet", project="fleet-tests")

    def wait(self, *pods: Manifest, said: str = "no node") -> None:
        for one in pods:
            feed(self.world.pods, "modified", unschedulable(one, said))

    def nodes(self, count: int) -> list[str]:
        until(lambda: len(self.api.nodes) >= count, f"{count} nodes")
        return [node["metadata"]["name"] for node in self.api.nodes]

    def settle(self, seconds: float = 1200.0) -> None:
        """Let simulated time pass."""
        self.world.clock.sleep(seconds)

    def events(self, reason: str) -> list[Manifest]:
        return [event for event in self.api.events if event["reason"] == reason]


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    with made.provisioner:
        yield made


def test_pods_are_told_of_the_scale_up_in_the_autoscalers_words(play: Play) -> None:
    play.wait(gpu_pod())
    (event,) = until(lambda: play.events("TriggeredScaleUp"))
    assert event["involvedObject"]["name"] == "server-0"
    assert event["source"] == {"component": "cluster-autoscaler"}
    assert "/projects/fleet-tests/zones/europe-west4-b/instanceGroups/gk3-fleet-nap-" in event["message"]


def test_many_pods_are_not_all_told(play: Play) -> None:
    play.wait(*(gpu_pod(f"server-{number}") for number in range(EVENTS_PER_SCAN + 20)))
    play.nodes(EVENTS_PER_SCAN + 20)
    assert len(play.events("TriggeredScaleUp")) >= EVENTS_PER_SCAN


def test_why_a_pod_waits_is_answered_and_told_once(play: Play) -> None:
    play.stock.spot_nodes = 0
    server = gpu_pod()
    assert play.provisioner.why_pending(server) is None
    play.wait(server)
    trouble = until(lambda: play.provisioner.why_pending(server))
    assert trouble.code == "scale.up.error.out.of.resources"
    play.wait(server, said="other words")
    play.settle(600)
    (event,) = play.events("FailedScaleUp")
    assert event["type"] == "Warning"


def test_a_pod_that_goes_takes_its_trouble_along(play: Play) -> None:
    play.stock.spot_nodes = 0
    server = gpu_pod()
    play.wait(server)
    until(lambda: play.provisioner.why_pending(server))
    feed(play.world.pods, "deleted", unschedulable(server))
    until(lambda: play.provisioner.why_pending(server) is None)


def test_the_zone_of_a_bound_volume_decides_where_the_machine_is(play: Play) -> None:
    play.stock.gpu_zones = ("europe-west4-a", "europe-west4-b")
    terms = [{"matchExpressions": [{"key": "topology.gke.io/zone", "operator": "In", "values": ["europe-west4-b"]}]}]
    volume = {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    claim = {"metadata": {"name": "weights", "namespace": "vllm"}, "spec": {"volumeName": "pv"}}
    feed(play.world.volumes, "added", volume)
    feed(play.world.claims, "added", claim)
    play.wait(gpu_pod(volumes=[{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}]))
    play.nodes(1)
    assert play.api.nodes[0]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "europe-west4-b"


def test_a_claim_that_waits_for_its_pod_takes_the_zones_of_its_class(play: Play) -> None:
    topology = [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": ["europe-west4-c"]}]}]
    play.api.objects[STORAGE_CLASS, "zonal"] = {"allowedTopologies": topology}
    claim = {"metadata": {"name": "disk", "namespace": "vllm"}, "spec": {"storageClassName": "zonal"}}
    feed(play.world.claims, "added", claim)
    small = pod("writer", {"cpu": "1"}, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}])
    play.wait(small)
    play.nodes(1)
    assert play.api.nodes[0]["metadata"]["labels"]["topology.gke.io/zone"] == "europe-west4-c"


def test_room_that_the_scheduler_does_not_use_becomes_a_trouble(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cloud.provisioner.SCHEDULER_SECONDS", 0.05)
    server = gpu_pod()
    play.wait(server)
    play.nodes(1)
    play.wait(server, said="0/1 nodes are available: 1 node(s) had a rule of their own.")
    trouble = until(lambda: play.provisioner.why_pending(server))
    assert "rule" in trouble.shown
    assert len(play.api.nodes) == 1


@pytest.mark.slow
def test_a_machine_is_kept_while_the_scheduler_has_not_come_round_to_its_pod(play: Play) -> None:
    play.wait(gpu_pod())
    play.nodes(1)
    play.settle(2000)
    assert play.api.deleted == []


def test_a_pod_that_slips_in_while_the_machine_is_marked_keeps_it(play: Play) -> None:
    server = gpu_pod()
    play.wait(server)
    (name,) = play.nodes(1)
    slipped = on_node(server, name)
    listed = threading.Event()

    def list_all(*_: object, **__: object) -> list[Manifest]:
        listed.set()
        return [slipped]

    play.api.list_all = list_all  # type: ignore[method-assign,assignment]
    feed(play.world.pods, "deleted", unschedulable(server))
    assert listed.wait(10)
    until(lambda: len(play.api.patches) == 2)
    marked, freed = (body["spec"]["taints"] for _, _, body, _ in play.api.patches)
    assert TO_BE_DELETED in {one["key"] for one in marked}
    assert TO_BE_DELETED not in {one["key"] for one in freed}
    assert play.api.deleted == []


def test_a_node_that_the_cluster_refuses_is_asked_for_again_later(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    play.api.refuse_nodes = True
    server = gpu_pod()
    play.wait(server)
    until(lambda: "was refused" in caplog.text)
    until(lambda: not play.provisioner._orders)
    play.api.refuse_nodes = False
    play.nodes(1)


def test_leaving_ends_what_was_planned() -> None:
    play = Play()
    with play.provisioner:
        play.wait(gpu_pod())
        until(lambda: len(play.provisioner._orders) == 1)
    play.settle()
    assert play.api.nodes == []
