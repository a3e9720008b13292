from __future__ import annotations

from typing import Any, Final

import pytest

from facts.capacity import MAX_GRACE_SECONDS
from lab.cloud.autoscaler_events import Trouble
from lab.cloud.node_objects import template
from lab.cloud.offers import Offer, offers
from lab.cloud.stock import Stock
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import GKE, GPU_TOLERATIONS, SPOT, gpu_pod, needs, pod, pod_templates
from tests.lab.shapes import SHAPES, STACKS, manifests, recorded
from tests.support.recorded import goes_before

pytestmark = pytest.mark.slow

FLEX = {f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-flex-start": "true"}
RESERVED = {
    f"{GKE}/gke-accelerator": "nvidia-b200",
    f"{GKE}/reservation-name": "block",
    f"{GKE}/reservation-affinity": "specific",
}
ZONE = "europe-west4-b"
PRIORITY = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8, "driverVersion": "latest"}}
SMALL = {"cpu": "1", "memory": "2Gi"}

A4 = "a4-highgpu-8g"
SPOT_NODE = (A4, "spot")
SERVERS = {
    "flex-start": [(A4, "flex-start")],
    "calendar": [(A4, "reservation")],
    "reservation": [(A4, "reservation")],
    "cud": [(A4, "reservation")],
    "a canary of another revision": [(A4, "reservation")],
    "compute-class": [(A4, "reservation"), SPOT_NODE, (A4, "flex-start")],
    "short compute-class": [(A4, "flex-start")],
    "every kind at once": [SPOT_NODE, (A4, "flex-start")],
    "two zones behind a gateway": [SPOT_NODE, SPOT_NODE],
    "smoke": [("g2-standard-12", "on-demand")],
    "prod": [(A4, "reservation"), SPOT_NODE, (A4, "flex-start")],
}
"""Machines that a shape's servers are offered, in order; Spot where nothing is said."""
WIDE: Final = ("spot", "two zones behind a gateway")
"""Shapes whose load takes more than 16 vCPUs of clients."""


def ask(manifest: Manifest, stock: Stock | None = None, **classes: Manifest) -> tuple[Offer, ...] | Trouble:
    stock = stock or Stock()
    return offers(needs(manifest), 1, stock, classes.get, flex_wait_seconds=900.0)


def offered(manifest: Manifest, stock: Stock | None = None, **classes: Manifest) -> tuple[Offer, ...]:
    found = ask(manifest, stock, **classes)
    assert not isinstance(found, Trouble), found
    return found


def refused(manifest: Manifest, **classes: Manifest) -> Trouble:
    found = ask(manifest, **classes)
    assert isinstance(found, Trouble)
    return found


def compute_class(*priorities: Manifest, **spec: Any) -> Manifest:
    return {"spec": {"nodePoolAutoCreation": {"enabled": True}, "priorities": list(priorities), **spec}}


def in_class(**changes: Any) -> Manifest:
    return gpu_pod(nodeSelector={f"{GKE}/compute-class": "priorities"}, **changes)


def test_the_compute_class_is_made_after_the_weights_and_before_the_servers() -> None:
    recording = recorded("compute-class")
    claims = [one.name for one in recording.resources if one.type.endswith(":PersistentVolumeClaim")]
    assert len(claims) == 2
    for claim in claims:
        assert goes_before(recording, "capacity-class", claim)
    assert goes_before(recording, "server-deployment", "capacity-class")


@pytest.mark.parametrize("shape", [*STACKS, *SHAPES])
def test_every_pod_of_every_stack_is_offered_the_right_machine(shape: str) -> None:
    objects = manifests(shape)
    classes = {one["metadata"]["name"]: one for one in objects if one["kind"] == "ComputeClass"}
    zones = ("europe-west4-a", ZONE) if shape.startswith("two zones") else (ZONE,)
    stock = Stock(gpu_zones=zones)
    expected = {
        "weights-writer": [("c4a-standard-8", "on-demand")],
        "vllm-benchmark": [("c4-standard-32" if shape in WIDE else "c4-standard-16", "on-demand")],
        "spending-guard": [("e2-standard-4", "on-demand")],
        "router": [("e2-standard-8", "on-demand")],
        "qwen35-pool-llm-d-epp": [("e2-standard-16", "on-demand")],  # ten vCPUs
    }
    seen = {}
    for app, one in pod_templates(objects):
        found = offered(one, stock, **classes)
        kinds = [(offer.machine.name, offer.mode) for offer in found]
        wanted = expected.get(app, SERVERS.get(shape, [SPOT_NODE]))
        assert kinds[: len(wanted)] == wanted
        assert {offer.zone for offer in found[: len(wanted)]} <= set(stock.zones)
        for offer in found:
            assert template(offer, needs(one)).unmet(needs(one)) == ""
        seen[app] = one
    servers = [value for app, value in seen.items() if app not in expected]
    assert len(servers) == (2 if "canary" in shape else 1)
    assert all(server["spec"]["terminationGracePeriodSeconds"] <= MAX_GRACE_SECONDS for server in servers)


def gpus(number: int, cpu: int, memory_gib: int, disk_gib: int = 40) -> dict[str, str]:
    disk = {"ephemeral-storage": f"{disk_gib}Gi"}
    return {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "nvidia.com/gpu": str(number), **disk}


def with_class(**labels: str) -> Manifest:
    """A small pod whose node affinity requires these labels of GKE; keys with underscores for `-`."""
    terms = [
        {"key": f"{GKE}/{key.replace('_', '-')}", "operator": "In", "values": [value]} for key, value in labels.items()
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return pod("small", SMALL, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


@pytest.mark.parametrize(
    ("one", "family"),
    [
        (pod("small", SMALL), "e2"),
        (pod("small", SMALL, nodeSelector={"kubernetes.io/arch": "arm64"}), "n4a"),
        (with_class(compute_class="Performance", machine_family="c4"), "c4"),
    ],
)
def test_a_pod_without_gpus_gets_the_family_that_it_selects(one: Manifest, family: str) -> None:
    assert offered(one)[0].machine.family == family


def on_spot(accelerator: str, **amounts: str) -> Manifest:
    selector = {**SPOT, f"{GKE}/gke-accelerator": accelerator}
    return pod("server", amounts, nodeSelector=selector, tolerations=GPU_TOLERATIONS)


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (gpu_pod(nodeSelector={}), "nap.pod.gpu.type.not.supported"),
        (gpu_pod(nodeSelector={**SPOT, **FLEX}), "flex.start.misconfigured.error"),
        (gpu_pod(nodeSelector={**RESERVED, **FLEX}), "flex.start.misconfigured.error"),
        (gpu_pod(nodeSelector={**SPOT, f"{GKE}/reservation-name": "block"}), "nap.pod.unusable.reservation"),
        (gpu_pod(nodeSelector={**SPOT, f"{GKE}/reservation-affinity": "specific"}), "nap.pod.unusable.reservation"),
        (gpu_pod(nodeSelector={f"{GKE}/compute-class": "absent"}), "nap.ccc.not.found"),
        (with_class(compute_class="Performance"), "nap.pod.compute.class.without.machine.family"),
        (with_class(machine_family="c4"), "nap.pod.machine.family.not.supported"),
        (with_class(compute_class="Performance", machine_family="z9"), "nap.pod.machine.family.unknown"),
        (pod("huge", {"cpu": "500"}), "nap.pod.zonal.resources.exceeded"),
        (on_spot("nvidia-b200", **{"cpu": "160", "nvidia.com/gpu": "4"}), "nap.pod.gpu.request.invalid"),
        (on_spot("nvidia-b200", **gpus(8, 224, 1000)), "nap.pod.zonal.resources.exceeded"),
        (on_spot("nvidia-b200", **gpus(8, 160, 3960)), "nap.pod.zonal.resources.exceeded"),
        (on_spot("nvidia-l4", **gpus(3, 8, 36)), "nap.pod.gpu.request.invalid"),
        (on_spot("nvidia-h200-141gb", **gpus(1, 8, 36)), "nap.pod.gpu.request.invalid"),
        (on_spot("nvidia-l4", **gpus(1, 40, 36)), "nap.pod.zonal.resources.exceeded"),
        # More than the largest boot disk leaves.
        (on_spot("nvidia-l4", **gpus(1, 8, 36, disk_gib=60_000)), "nap.pod.zonal.resources.exceeded"),
        (on_spot("nvidia-tesla-v100", **gpus(1, 4, 8)), "nap.pod.gpu.type.not.supported"),
    ],
)
def test_a_pod_that_gets_no_machine_is_told_why(one: Manifest, code: str) -> None:
    trouble = refused(one)
    assert (trouble.code, trouble.event) == (f"no.scale.up.{code}", "NotTriggerScaleUp")
    assert trouble.fix


def test_priorities_come_in_their_order_each_with_its_own_way_and_wait() -> None:
    reservation = {"affinity": "Specific", "specific": [{"name": "block", "project": "owner", "zones": [ZONE]}]}
    steps = compute_class(
        {**PRIORITY, "reservations": reservation, "capacityCheckWaitTimeSeconds": 60},
        {**PRIORITY, "flexStart": {"enabled": True}, "maxRunDurationSeconds": 3600, "capacityCheckWaitTimeSeconds": 60},
        {**PRIORITY, "flexStart": {"enabled": True}, "capacityCheckWaitTimeSeconds": 1200},
        {**PRIORITY, "spot": True, "location": {"zones": [ZONE]}},
    )
    found = offered(in_class(), priorities=steps)
    # It can be lengthened, of flex-start alone.
    waits = [("reservation", 0), ("flex-start", 900), ("flex-start", 1200), ("spot", 0)]
    assert [(one.mode, one.wait_seconds) for one in found] == waits
    assert (found[0].reservation, found[0].reservation_project) == ("block", "owner")
    assert found[1].max_run_seconds == "3600"
    assert {one.driver_version for one in found} == {"latest"}
    assert all(one.by_class and one.compute_class == "priorities" for one in found)
    assert [(one.priority, one.idle_minutes) for one in found] == [(priority, None) for priority in range(4)]


def test_a_class_says_how_its_nodes_end() -> None:
    kubelet = {"shutdownGracePeriodSeconds": 120, "shutdownGracePeriodCriticalPodsSeconds": 15}
    steps = compute_class(
        {**PRIORITY, "flexStart": {"enabled": True}},
        {**PRIORITY, "spot": True, "nodeSystemConfig": {"kubeletConfig": kubelet}},
        autoscalingPolicy={"consolidationDelayMinutes": 1},
    )
    flex, spot = offered(in_class(), priorities=steps)
    assert (flex.priority, flex.shutdown_seconds, flex.critical_seconds) == (0, 30, 15)
    assert (spot.priority, spot.shutdown_seconds, spot.critical_seconds) == (1, 120, 15)
    assert {one.idle_minutes for one in (flex, spot)} == {1}


def test_defaults_of_a_class_hold_for_every_priority() -> None:
    steps = compute_class({"spot": True}, {}, priorityDefaults=PRIORITY)
    assert [one.machine.name for one in offered(in_class(), priorities=steps)] == [A4, A4]


def test_priorities_without_a_machine_for_the_pod_are_passed_over() -> None:
    steps = compute_class(
        {"machineFamily": "c4"}, {**PRIORITY, "gpu": {"type": "nvidia-h100", "count": 8}}, {**PRIORITY, "spot": True}
    )
    assert [one.mode for one in offered(in_class(), priorities=steps)] == ["spot"]


def test_a_class_whose_priorities_all_miss_is_explained() -> None:
    assert (
        refused(in_class(), priorities=compute_class({"machineFamily": "c4"})).code
        == "no.scale.up.nap.ccc.pod.incompatible"
    )
    closed = compute_class(PRIORITY, nodePoolAutoCreation={"enabled": False})
    assert refused(in_class(), priorities=closed).code == "no.scale.up.nap.ccc.autoprovisioning.disabled"


def test_a_reservation_is_asked_for_where_the_pod_has_to_be() -> None:
    stock = Stock(gpu_zones=("europe-west4-a", ZONE))
    stock.reserve("block", nodes=1, zone=ZONE)
    assert offered(gpu_pod(nodeSelector=RESERVED), stock)[0].zone == ZONE
    pinned = {**RESERVED, "topology.kubernetes.io/zone": "europe-west4-a"}
    assert offered(gpu_pod(nodeSelector=pinned), stock)[0].zone == "europe-west4-a"


def gpu_offers(accelerator: str, amounts: dict[str, str], **selector: str) -> tuple[Offer, ...] | Trouble:
    """What a Spot pod with these GPUs is offered; keys of GKE's labels with underscores for `-`."""
    labels = {f"{GKE}/{key.replace('_', '-')}": value for key, value in selector.items()}
    wanted = {f"{GKE}/gke-accelerator": accelerator, f"{GKE}/gke-spot": "true", **labels}
    return ask(pod("server", amounts, nodeSelector=wanted, tolerations=GPU_TOLERATIONS))


@pytest.mark.parametrize(
    ("accelerator", "amounts", "expected"),
    [
        ("nvidia-l4", gpus(1, 8, 36), "g2-standard-12"),
        ("nvidia-l4", gpus(1, 6, 20), "g2-standard-8"),  # a stack that names g2-standard-12 gets the smaller one
        ("nvidia-l4", gpus(2, 8, 36), "g2-standard-24"),
        ("nvidia-h100-80gb", gpus(1, 20, 180), "a3-highgpu-1g"),
        ("nvidia-h200-141gb", gpus(8, 160, 1000), "a3-ultragpu-8g"),
        ("nvidia-a100-80gb", gpus(2, 16, 200), "a2-ultragpu-2g"),
    ],
)
def test_the_smallest_machine_with_the_pods_gpus_that_holds_it_comes(
    accelerator: str, amounts: dict[str, str], expected: str
) -> None:
    found = gpu_offers(accelerator, amounts)
    assert not isinstance(found, Trouble), found
    assert {one.machine.name for one in found} == {expected}


def test_local_ssd_that_is_selected_replaces_the_boot_disk() -> None:
    found = gpu_offers("nvidia-l4", gpus(1, 8, 36, disk_gib=260), gke_ephemeral_storage_local_ssd="true")
    assert not isinstance(found, Trouble), found
    assert [(one.machine.name, one.machine.local_ssd) for one in found] == [("g2-standard-12", True)]
    assert found[0].machine.disk_gib == 375
    larger = gpu_offers("nvidia-l4", gpus(1, 8, 36, disk_gib=270), gke_ephemeral_storage_local_ssd="true")
    assert isinstance(larger, Trouble)  # a local SSD leaves 264 GiB


def test_a_boot_disk_is_as_large_as_the_pods_of_its_node_need() -> None:
    alone, shared = (
        gpu_offers("nvidia-l4", gpus(1, 4, 8, disk_gib=57), **labels) for labels in ({}, {"gke_accelerator_count": "2"})
    )
    assert not isinstance(alone, Trouble)
    assert not isinstance(shared, Trouble)
    assert [one.machine.disk_gib for one in (alone[0], shared[0])] == [130, 242]


def test_pods_share_a_machine_only_where_they_select_its_number_of_gpus() -> None:
    shared = gpu_offers("nvidia-h100-80gb", gpus(1, 20, 180), gke_accelerator_count="8")
    assert not isinstance(shared, Trouble), shared
    assert shared[0].machine.name == "a3-highgpu-8g"
    assert needs(pod("server", gpus(1, 20, 180))).amounts.times_in(shared[0].machine.allocatable) == 8
    assert isinstance(gpu_offers("nvidia-b200", gpus(1, 20, 180), gke_accelerator_count="8"), Trouble)
    assert isinstance(gpu_offers("nvidia-l4", gpus(1, 4, 8), gke_accelerator_count="3"), Trouble)


@pytest.mark.parametrize(
    ("accelerator", "amounts", "sold"),
    [
        ("nvidia-l4", gpus(1, 8, 36), True),
        ("nvidia-h100-80gb", gpus(8, 160, 1000), True),
        ("nvidia-h100-80gb", gpus(1, 20, 180), False),
        ("nvidia-b200", gpus(8, 160, 1000), False),
        ("nvidia-h200-141gb", gpus(8, 160, 1000), False),
    ],
)
def test_a_machine_comes_on_demand_only_where_google_sells_it_so(
    accelerator: str, amounts: dict[str, str], sold: bool
) -> None:
    one = pod("server", amounts, nodeSelector={f"{GKE}/gke-accelerator": accelerator}, tolerations=GPU_TOLERATIONS)
    (found,) = offered(one)
    assert (found.mode, found.is_sold) == ("on-demand", sold)


@pytest.mark.parametrize(
    ("priority", "amounts", "expected"),
    [
        ({"machineType": "g2-standard-16", "gpu": {"type": "nvidia-l4", "count": 1}}, gpus(1, 6, 20), "g2-standard-16"),
        ({"machineType": "g2-standard-8", "gpu": {"type": "nvidia-l4", "count": 1}}, gpus(1, 8, 36), None),
        ({"gpu": {"type": "nvidia-l4", "count": 1}}, gpus(1, 6, 20), "g2-standard-8"),
        ({"machineFamily": "g2"}, gpus(1, 6, 20), "g2-standard-8"),
        ({"machineType": "g2-standard-16", "storage": {"bootDiskSize": 100}}, gpus(1, 6, 20, disk_gib=60), None),
        ({"machineType": "g2-standard-16", "storage": {"bootDiskSize": 600}}, gpus(1, 6, 20, 400), "g2-standard-16"),
        ({"gpu": {"type": "nvidia-h100-80gb", "count": 8}}, gpus(1, 20, 180), "a3-highgpu-8g"),  # shared, by the class
        (PRIORITY, gpus(1, 20, 180), None),
    ],
)
def test_a_priority_brings_the_machine_that_it_names(
    priority: Manifest, amounts: dict[str, str], expected: str | None
) -> None:
    one = pod("server", amounts, nodeSelector={f"{GKE}/compute-class": "priorities"}, tolerations=GPU_TOLERATIONS)
    found = ask(one, priorities=compute_class({**priority, "spot": True}))
    assert (None if isinstance(found, Trouble) else found[0].machine.name) == expected
