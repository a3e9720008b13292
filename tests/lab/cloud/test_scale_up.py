from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cloud.offers import offers
from lab.cloud.pod_needs import PodNeeds
from lab.cloud.scale_up import Decision, Market, Memory, Room, Rooms, decide
from lab.cloud.stock import Pool, Stock
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import GKE, gpu_pod, needs, pod

RETRY = 300.0
PRIORITY = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}
RESERVED_PRIORITY = {**PRIORITY, "reservations": {"affinity": "Specific", "specific": [{"name": "block"}]}}
FLEX_PRIORITY = {**PRIORITY, "flexStart": {"enabled": True}}
SPOT_PRIORITY = {**PRIORITY, "spot": True}
SERVER = needs(gpu_pod())
SMALL = needs(pod("small", {"cpu": "1", "memory": "2Gi"}))


def named(count: int, wanted: PodNeeds = SERVER, name: str = "pod") -> list[tuple[tuple[str, str], PodNeeds]]:
    return [(("vllm", f"{name}-{number}"), wanted) for number in range(count)]


class Autoscaler:
    """Decides again and again, as time goes by; every machine that it asks for is there at the next look."""

    def __init__(self, stock: Stock, *priorities: Manifest) -> None:
        self.stock, self.memory = stock, Memory()
        self.spec = {"nodePoolAutoCreation": {"enabled": True}, "priorities": list(priorities)}
        self.in_use: Counter[Pool] = Counter()
        self.now = 0.0

    def look(
        self,
        waiting: Sequence[tuple[tuple[str, str], PodNeeds]],
        there: Sequence[Room] = (),
        coming: Sequence[Room] = (),
        after: float = 0.0,
    ) -> Decision:
        self.now += after
        market = Market(self.stock, self.memory, self.in_use, retry_seconds=RETRY)
        decision = decide(list(waiting), Rooms(there), Rooms(coming), market, self._offers, self.now)
        self.in_use.update(one.offer.pool for one in decision.wanted)
        return decision

    def _offers(self, wanted: PodNeeds, pods: int) -> Any:
        return offers(wanted, pods, self.stock, lambda _: {"spec": self.spec}, flex_wait_seconds=900.0)


def rooms(decision: Decision) -> list[Room]:
    """The nodes that were asked for, without a pod yet."""
    return [Room(one.template, one.offer.machine.allocatable) for one in decision.wanted]


def on(accelerator: str, gpus: int, **selector: str) -> PodNeeds:
    """What a pod with these GPUs asks for, on demand."""
    amounts = {"cpu": "8", "memory": "36Gi", "nvidia.com/gpu": str(gpus)}
    return needs(
        gpu_pod(nodeSelector={f"{GKE}/gke-accelerator": accelerator, **selector}, containers=[container(amounts)])
    )


def container(amounts: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "image": "image", "resources": {"requests": amounts, "limits": amounts}}


@pytest.mark.parametrize(("accelerator", "gpus", "machines"), [("nvidia-l4", 1, 1), ("nvidia-h100-80gb", 1, 0)])
def test_what_is_not_sold_on_demand_never_comes(accelerator: str, gpus: int, machines: int) -> None:
    decision = Autoscaler(Stock()).look(named(1, on(accelerator, gpus)))
    assert len(decision.wanted) == machines
    assert all("is not sold as on-demand" in trouble.message for trouble in decision.troubles.values())


def test_pods_that_select_a_machines_number_of_gpus_fill_it_before_the_next_comes() -> None:
    nine = named(9, on("nvidia-l4", 1, **{f"{GKE}/gke-accelerator-count": "8"}))
    decision = Autoscaler(Stock()).look(nine)
    assert [len(one.pods) for one in decision.wanted] == [8, 1]
    assert {one.offer.machine.name for one in decision.wanted} == {"g2-standard-96"}


def test_the_youngest_waits_for_stock_and_google_is_asked_again_after_the_back_off_and_not_before() -> None:
    stock = Stock()
    stock.spot_nodes = 1
    autoscaler = Autoscaler(stock)
    decision = autoscaler.look(named(2))
    assert len(decision.wanted) == 1
    assert {key[1]: trouble.code for key, trouble in decision.troubles.items()} == {
        "pod-1": "scale.up.error.out.of.resources"
    }
    assert decision.look_again_at == RETRY
    stock.spot_nodes = 2
    youngest = named(2)[1:]
    assert autoscaler.look(youngest, after=RETRY / 2).wanted == []
    assert len(autoscaler.look(youngest, after=RETRY / 2).wanted) == 1


IN_CLASS = needs(gpu_pod(nodeSelector={f"{GKE}/compute-class": "priorities"}))


def test_flex_start_is_waited_for_before_spot_is_taken() -> None:
    stock = Stock()
    stock.flex_start_nodes = 0
    autoscaler = Autoscaler(stock, FLEX_PRIORITY, SPOT_PRIORITY)
    first = autoscaler.look(named(1, IN_CLASS))
    assert first.wanted == []
    assert autoscaler.look(named(1, IN_CLASS), after=899).wanted == []
    assert [one.offer.mode for one in autoscaler.look(named(1, IN_CLASS), after=1).wanted] == ["spot"]


def test_a_priority_that_opens_while_it_is_waited_for_is_taken() -> None:
    stock = Stock()
    stock.flex_start_nodes = 0
    autoscaler = Autoscaler(stock, FLEX_PRIORITY, SPOT_PRIORITY)
    autoscaler.look(named(1, IN_CLASS))
    stock.flex_start_nodes = 1
    assert [one.offer.mode for one in autoscaler.look(named(1, IN_CLASS), after=RETRY).wanted] == ["flex-start"]


def test_patience_begins_anew_once_nobody_waits() -> None:
    stock = Stock()
    stock.flex_start_nodes = 0
    autoscaler = Autoscaler(stock, FLEX_PRIORITY, SPOT_PRIORITY)
    autoscaler.look(named(1, IN_CLASS))
    autoscaler.look([], after=2000)
    assert autoscaler.look(named(1, IN_CLASS)).wanted == []


@pytest.mark.parametrize(
    ("reservation", "code"),
    [
        ({"nodes": 2, "active": False}, "not.ready"),
        ({"nodes": 0}, "capacity.exceeded"),
        ({"nodes": 2, "project": "other"}, "not.found"),
        (None, "not.found"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_said(reservation: Mapping[str, Any] | None, code: str) -> None:
    stock = Stock()
    if reservation is not None:
        stock.reserve("block", zone="europe-west4-b", **reservation)
    decision = Autoscaler(stock, RESERVED_PRIORITY).look(named(1, IN_CLASS))
    (trouble,) = decision.troubles.values()
    assert trouble.code == f"scale.up.error.reservation.{code}"


def test_a_reservation_in_another_zone_than_the_weights_is_named_with_both() -> None:
    stock = Stock(gpu_zones=("europe-west4-a", "europe-west4-b"))
    stock.reserve("block", nodes=2, zone="europe-west4-a")
    selector = {
        f"{GKE}/gke-accelerator": "nvidia-b200",
        f"{GKE}/reservation-name": "block",
        f"{GKE}/reservation-affinity": "specific",
        "topology.kubernetes.io/zone": "europe-west4-b",
    }
    decision = Autoscaler(stock).look(named(1, needs(gpu_pod(nodeSelector=selector))))
    (trouble,) = decision.troubles.values()
    assert trouble.code == "no.scale.up.nap.pod.unusable.reservation"
    assert re.search("europe-west4-a.*europe-west4-b", trouble.message)


@pytest.mark.parametrize(
    ("one", "names"),
    [
        (gpu_pod(tolerations=[]), "nvidia.com/gpu=present:NoSchedule"),
        (pod("odd", {"cpu": "1"}, nodeSelector={"disk": "golden"}), "disk: golden"),
    ],
)
def test_what_no_machine_would_meet_is_named_and_none_is_asked_for(one: Manifest, names: str) -> None:
    decision = Autoscaler(Stock()).look(named(1, needs(one)))
    assert decision.wanted == []
    (trouble,) = decision.troubles.values()
    assert names in trouble.message


def test_small_pods_share_machines() -> None:
    autoscaler = Autoscaler(Stock())
    decision = autoscaler.look(named(6, SMALL))
    assert len(decision.wanted) == 1
    assert len(decision.wanted[0].pods) == 6
    more = autoscaler.look(named(6, SMALL), coming=rooms(decision))
    assert more.wanted == []


def test_pods_with_other_needs_use_the_room_that_is_left() -> None:
    other = needs(pod("other", {"cpu": "500m", "memory": "1Gi"}))
    decision = Autoscaler(Stock()).look([*named(1, SMALL), *named(2, other, "other")])
    assert len(decision.wanted) == 1


@given(
    pods=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    stock=st.one_of(st.none(), st.integers(0, 10)),
    arrived=st.integers(0, 12),
    pause=st.floats(0, 700),
)
def test_never_more_machines_than_stock_or_pods(pods: list[int], stock: int | None, arrived: int, pause: float) -> None:
    """Pods come and go between looks; machines arrive one after the other and are never given back."""
    supply = Stock()
    supply.spot_nodes = stock
    autoscaler = Autoscaler(supply)
    coming: list[Room] = []
    there: list[Room] = []
    for count in pods:
        decision = autoscaler.look(named(count), there=there, coming=coming, after=pause)
        coming += rooms(decision)
        there, coming = there + coming[:arrived], coming[arrived:]
        machines = autoscaler.in_use[("spot", "")]
        assert machines <= max(pods)
        assert stock is None or machines <= stock
        served = len(decision.placed) + sum(len(one.pods) for one in decision.wanted) + len(decision.troubles)
        assert served <= count
        if stock is None:
            assert not decision.troubles


@given(reserved=st.integers(0, 6), flex=st.integers(0, 6), spot=st.integers(0, 6), pods=st.integers(0, 20))
def test_a_compute_class_takes_every_priority_to_its_end_and_nothing_beyond(
    reserved: int, flex: int, spot: int, pods: int
) -> None:
    stock = Stock()
    stock.reserve("block", nodes=reserved, zone="europe-west4-b")
    stock.flex_start_nodes, stock.spot_nodes = flex, spot
    autoscaler = Autoscaler(stock, RESERVED_PRIORITY, FLEX_PRIORITY, SPOT_PRIORITY)
    waiting, coming = named(pods, IN_CLASS), []
    for after in (0.0, 900.0):
        decision = autoscaler.look(waiting, coming=coming, after=after)
        coming += rooms(decision)
    used = autoscaler.in_use
    assert used[("reservation", "block")] == min(pods, reserved)
    assert used[("flex-start", "")] == min(max(0, pods - reserved), flex)
    assert used[("spot", "")] == min(max(0, pods - reserved - flex), spot)
    assert len(decision.troubles) == max(0, pods - reserved - flex - spot)


@pytest.mark.parametrize(("disk_gib", "refused"), [(56, False), (211, True)])
def test_a_boot_disk_above_the_projects_quota_keeps_the_pod_pending(disk_gib: int, refused: bool) -> None:
    """A new project's 500 GiB, less 200 of Autopilot's own nodes: smoke asked for 211."""
    wanted = {"cpu": "9", "memory": "35Gi", "nvidia.com/gpu": "1", "ephemeral-storage": f"{disk_gib}Gi"}
    selector = {f"{GKE}/gke-accelerator": "nvidia-l4"}
    server = needs(pod("server", wanted, nodeSelector=selector, tolerations=[{"operator": "Exists"}]))
    stock = Stock(ssd_gib=300)
    market = Market(stock, Memory(), Counter(), retry_seconds=RETRY)
    offered = offers(server, 1, stock, lambda _: None, flex_wait_seconds=0)
    first, second = named(2, server)
    decision = decide([first], Rooms(()), Rooms(()), market, lambda *_: offered, 0)
    assert len(decision.wanted) == (0 if refused else 1)
    if refused:
        trouble = decision.troubles[first[0]]
        assert trouble.code == "scale.up.error.quota.exceeded"
        assert "373 GiB" in trouble.message
    else:
        again = [second, (("vllm", "third"), server)]
        decision = decide(again, Rooms(()), Rooms(()), market, lambda *_: offered, 1)
        assert (len(decision.wanted), len(decision.troubles)) == (1, 1)  # 126 GiB each: three are 378
