from __future__ import annotations

import copy
import threading
from collections.abc import Iterator

import pytest

from lab.cloud.cluster_view import TO_BE_DELETED
from lab.cloud.offers import COMPUTE_CLASS_KIND
from lab.cloud.provisioner import EVENTS_PER_SCAN, Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.control_plane.api import STORAGE_CLASS, Manifest
from tests.lab.cloud.fake_world import (
    GKE,
    FakeApi,
    feed,
    gpu_pod,
    make_world,
    on_node,
    pod,
    unschedulable,
    until,
)

UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."


class Play:
    """A provisioner, and pods that a test puts before it."""

    def __init__(self, speed: float = 6000.0) -> None:
        self.world, self.api = make_world(speed)
        self.stock = Stock()
        self.provisioner = Provisioner(self.world, self.stock, Timings(), cluster="fleet", project="fleet-tests")

    def wait(self, *pods: Manifest, said: str = "no node") -> None:
        for one in pods:
            feed(self.world.pods, "modified", unschedulable(one, said))

    def bind(self, one: Manifest, node: str) -> Manifest:
        bound = on_node(one, node)
        feed(self.world.pods, "modified", bound)
        return bound

    def nodes(self, count: int) -> list[str]:
        until(lambda: len(self.api.nodes) >= count, f"{count} nodes")
        return [node["metadata"]["name"] for node in self.api.nodes]

    def settle(self, seconds: float = 1200.0) -> None:
        """Let simulated time pass."""
        self.world.clock.sleep(seconds)

    def events(self, reason: str) -> list[Manifest]:
        return [one for one in self.api.events if one["reason"] == reason]


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    with made.provisioner:
        yield made


@pytest.fixture
def slow_play() -> Iterator[Play]:
    """Ten simulated minutes in 0.6 s: for tests that have to be in time on a busy machine."""
    made = Play(speed=1000.0)
    with made.provisioner:
        yield made


def test_a_waiting_server_gets_one_machine_after_five_to_six_minutes(play: Play) -> None:
    began = play.world.clock.now_seconds()
    play.wait(gpu_pod())
    play.nodes(1)
    assert play.world.clock.now_seconds() - began >= 310
    play.settle()
    assert len(play.api.nodes) == 1
    assert play.provisioner.on_their_way == 0


def test_googles_own_pods_bring_no_machine_before_a_pod_of_the_users_waits(play: Play) -> None:
    operator = pod("gmp-operator", {"cpu": "1m", "memory": "16M"})
    operator["metadata"]["namespace"] = "gke-gmp-system"
    play.wait(operator)
    play.settle()
    assert play.api.nodes == []
    play.wait(gpu_pod())
    play.nodes(2)
    families = {node["metadata"]["labels"][f"{GKE}/machine-family"] for node in play.api.nodes}
    assert families == {"a4", "e2"}


@pytest.mark.slow
def test_pods_that_come_while_machines_are_on_their_way_get_only_what_is_missing(play: Play) -> None:
    pods = [gpu_pod(f"server-{number}") for number in range(5)]
    play.wait(*pods[:3])
    until(lambda: play.provisioner.on_their_way == 3)
    play.wait(*pods)
    play.nodes(5)
    play.settle()
    assert len(play.api.nodes) == 5


def test_pods_are_told_of_the_scale_up_in_the_autoscalers_words(play: Play) -> None:
    play.wait(gpu_pod())
    (event,) = until(lambda: play.events("TriggeredScaleUp"))
    assert event["involvedObject"]["name"] == "server-0"
    assert event["source"] == {"component": "cluster-autoscaler"}
    assert "/projects/fleet-tests/zones/europe-west4-b/instanceGroups/gk3-fleet-nap-" in event["message"]
    assert event["message"].endswith("-grp 0->1 (max: 1000)}]")


def test_many_pods_are_not_all_told(play: Play) -> None:
    play.wait(*(gpu_pod(f"server-{number}") for number in range(EVENTS_PER_SCAN + 20)))
    play.nodes(EVENTS_PER_SCAN + 20)
    assert len(play.events("TriggeredScaleUp")) <= EVENTS_PER_SCAN + 20
    assert len(play.events("TriggeredScaleUp")) >= EVENTS_PER_SCAN


def test_why_a_pod_waits_is_answered_and_told_once(play: Play) -> None:
    play.stock.spot_nodes = 0
    server = gpu_pod()
    assert play.provisioner.why_pending(server) is None
    play.wait(server)
    trouble = until(lambda: play.provisioner.why_pending(server))
    assert "europe-west4-b has no Spot capacity for a4-highgpu-8g" in trouble.message
    play.wait(server, said="other words")
    play.settle(600)
    (event,) = play.events("FailedScaleUp")
    assert event["type"] == "Warning"
    assert event["message"] == (
        "Node scale up in zones europe-west4-b associated with this pod failed: GCE out of resources. "
        "Pod is at risk of not being scheduled."
    )


def test_a_pod_is_served_once_there_is_stock_again_and_has_no_trouble_then(play: Play) -> None:
    play.stock.spot_nodes = 0
    server = gpu_pod()
    play.wait(server)
    until(lambda: play.provisioner.why_pending(server))
    play.stock.spot_nodes = 1
    play.nodes(1)
    assert play.provisioner.why_pending(server) is None


def test_a_pod_that_goes_takes_its_trouble_along(play: Play) -> None:
    play.stock.spot_nodes = 0
    server = gpu_pod()
    play.wait(server)
    until(lambda: play.provisioner.why_pending(server))
    feed(play.world.pods, "deleted", unschedulable(server))
    until(lambda: play.provisioner.why_pending(server) is None)


@pytest.mark.slow
def test_a_pod_that_waits_for_its_volume_gets_no_machine_until_that_is_bound(play: Play) -> None:
    server = gpu_pod()
    play.wait(server, said=UNBOUND)
    trouble = until(lambda: play.provisioner.why_pending(server))
    assert trouble.shown == UNBOUND
    assert "waits for a volume" in trouble.message
    play.settle()
    assert play.api.nodes == []
    play.wait(server)
    play.nodes(1)


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


def test_a_ladder_is_read_from_the_cluster(play: Play) -> None:
    server = gpu_pod(nodeSelector={f"{GKE}/compute-class": "ladder"})
    play.wait(server)
    assert until(lambda: play.provisioner.why_pending(server)).code == "no.scale.up.nap.ccc.not.found"
    rung = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}, "spot": True}
    play.api.objects[COMPUTE_CLASS_KIND, "ladder"] = {
        "spec": {"nodePoolAutoCreation": {"enabled": True}, "priorities": [rung]}
    }
    play.wait(server, said="still no node")
    play.nodes(1)
    assert play.api.nodes[0]["metadata"]["labels"][f"{GKE}/compute-class"] == "ladder"


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
def test_an_empty_machine_is_given_back_after_ten_minutes(slow_play: Play) -> None:
    server = gpu_pod()
    slow_play.wait(server)
    (name,) = slow_play.nodes(1)
    bound = slow_play.bind(server, name)
    slow_play.settle()
    assert slow_play.api.deleted == []
    began = slow_play.world.clock.now_seconds()
    feed(slow_play.world.pods, "deleted", bound)
    until(lambda: slow_play.api.deleted == [("Node", name)])
    assert slow_play.world.clock.now_seconds() - began >= 630
    taints = [body["spec"]["taints"][-1]["key"] for _, _, body, _ in slow_play.api.patches]
    assert taints == [TO_BE_DELETED]


@pytest.mark.slow
def test_a_machine_that_gets_a_pod_in_time_stays(slow_play: Play) -> None:
    first, second = gpu_pod("server-1"), gpu_pod("server-2")
    slow_play.wait(first)
    (name,) = slow_play.nodes(1)
    bound = slow_play.bind(first, name)
    feed(slow_play.world.pods, "deleted", bound)
    slow_play.settle(300)
    slow_play.bind(second, name)
    slow_play.settle(600)
    assert slow_play.api.deleted == []


@pytest.mark.slow
def test_a_machine_is_kept_while_the_scheduler_has_not_come_round_to_its_pod(play: Play) -> None:
    play.wait(gpu_pod())
    play.nodes(1)
    play.settle(2000)
    assert play.api.deleted == []


def test_a_machine_that_somebody_else_deletes_is_replaced(play: Play) -> None:
    play.wait(gpu_pod())
    (name,) = play.nodes(1)
    node = play.world.nodes.get(name)
    assert node is not None
    feed(play.world.nodes, "deleted", node)
    play.nodes(2)


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
    until(lambda: play.provisioner.on_their_way == 0)
    play.api.refuse_nodes = False
    play.nodes(1)


def test_small_pods_of_one_moment_share_a_machine(play: Play) -> None:
    play.wait(*(pod(f"small-{number}", {"cpu": "500m", "memory": "1Gi"}) for number in range(4)))
    play.nodes(1)
    play.settle()
    assert len(play.api.nodes) == 1
    assert play.api.nodes[0]["metadata"]["labels"][f"{GKE}/machine-family"] == "e2"


@pytest.mark.slow
def test_a_thousand_servers_get_a_thousand_machines() -> None:
    play = Play(speed=600.0)
    with play.provisioner:
        play.wait(*(gpu_pod(f"server-{number}") for number in range(1000)))
        play.nodes(1000)
        play.settle(120)
        assert len(play.api.nodes) == len({node["metadata"]["name"] for node in play.api.nodes}) == 1000


def test_leaving_ends_what_was_planned() -> None:
    play = Play()
    with play.provisioner:
        play.wait(gpu_pod())
        until(lambda: play.provisioner.on_their_way == 1)
    play.settle()
    assert play.api.nodes == []


def test_the_fake_keeps_copies(play: Play) -> None:
    """What the tests above rely on: a test's pod is not the mirror's."""
    server = gpu_pod()
    before = copy.deepcopy(server)
    play.wait(server)
    assert server == before
    assert isinstance(play.api, FakeApi)
