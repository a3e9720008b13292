from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from lab.cloud.machines import Machine, machines, with_gpus
from lab.cloud.node_objects import node_address, node_manifest, node_name, pod_range, template
from lab.cloud.offers import Offer
from tests.lab.cloud.fake_world import A4, GKE, gpu_pod, needs, pod

SPOT = Offer(machine=A4, mode="spot", zone="europe-west4-b")
SERVER = needs(gpu_pod())
SMALL = needs(pod("small", {"cpu": "1"}))
C4A = next(one for one in machines("c4a") if one.vcpu == 8)


def node(offer: Offer = SPOT, number: int = 7) -> dict[str, object]:
    return node_manifest(offer, template(offer, SERVER), number=number, cluster="fleet", project="fleet-tests")


def test_a_spot_a4_has_the_labels_and_taints_that_gke_gives_it() -> None:
    made = node()
    labels, spec = made["metadata"]["labels"], made["spec"]  # type: ignore[index]
    assert labels == labels | {
        f"{GKE}/gke-accelerator": "nvidia-b200",
        f"{GKE}/gke-accelerator-count": "8",
        f"{GKE}/gke-spot": "true",
        f"{GKE}/gke-provisioning": "spot",
        f"{GKE}/machine-family": "a4",
        f"{GKE}/gke-boot-disk": "hyperdisk-balanced",
        "node.kubernetes.io/instance-type": "a4-highgpu-8g",
        "topology.kubernetes.io/zone": "europe-west4-b",
        "topology.gke.io/zone": "europe-west4-b",
        "topology.kubernetes.io/region": "europe-west4",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": made["metadata"]["name"],  # type: ignore[index]
    }
    assert f"{GKE}/compute-class" not in labels
    assert spec["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": f"{GKE}/gke-spot", "value": "true", "effect": "NoSchedule"},
    ]
    assert spec["providerID"].startswith("gce://fleet-tests/europe-west4-b/gk3-fleet-nap-")


@pytest.mark.parametrize(
    ("machine", "local_ssd", "labels"),
    [
        (with_gpus("g2-standard-12"), None, ("nvidia-l4", "1", "pd-balanced", "amd64")),
        (with_gpus("g2-standard-12", local_ssd=True), "true", ("nvidia-l4", "1", "pd-balanced", "amd64")),
        (with_gpus("a3-highgpu-1g"), "true", ("nvidia-h100-80gb", "1", "pd-balanced", "amd64")),
        (with_gpus("g4-standard-96"), None, ("nvidia-rtx-pro-6000", "2", "hyperdisk-balanced", "amd64")),
        (with_gpus("a4x-highgpu-4g"), "true", ("nvidia-gb200", "4", "hyperdisk-balanced", "arm64")),
    ],
)
def test_a_node_says_which_gpus_disk_and_local_ssd_its_machine_has(
    machine: Machine, local_ssd: str | None, labels: tuple[str, str, str, str]
) -> None:
    kind = dict(template(Offer(machine=machine, mode="spot", zone="us-central1-b"), SERVER).labels)
    keys = (f"{GKE}/gke-accelerator", f"{GKE}/gke-accelerator-count", f"{GKE}/gke-boot-disk", "kubernetes.io/arch")
    assert tuple(kind[key] for key in keys) == labels
    assert kind.get(f"{GKE}/gke-ephemeral-storage-local-ssd") == local_ssd
    assert kind[f"{GKE}/machine-family"] == machine.name.partition("-")[0]


def test_a_node_registers_unready_and_with_less_than_its_machine_has() -> None:
    status = node()["status"]
    assert [(condition["type"], condition["status"]) for condition in status["conditions"]] == [("Ready", "False")]  # type: ignore[index]
    assert status["capacity"]["cpu"] == "224000m"  # type: ignore[index]
    assert status["allocatable"]["cpu"] == "221870m"  # type: ignore[index]
    assert status["allocatable"]["nvidia.com/gpu"] == "8"  # type: ignore[index]


def test_a_reservations_node_says_which_one() -> None:
    offer = Offer(machine=A4, mode="reservation", zone="europe-west4-b", reservation="block", reservation_blocks="b1")
    labels = dict(template(offer, SERVER).labels)
    assert labels[f"{GKE}/reservation-name"] == "block"
    assert labels[f"{GKE}/reservation-affinity"] == "specific"
    assert labels[f"{GKE}/reservation-blocks"] == "b1"
    assert f"{GKE}/gke-spot" not in labels
    assert labels[f"{GKE}/gke-provisioning"] == "standard"


def test_an_arm_node_keeps_pods_off_that_do_not_tolerate_it() -> None:
    offer = Offer(machine=C4A, mode="on-demand", zone="europe-west4-a", compute_class="Performance")
    kind = template(offer, SMALL)
    assert dict(kind.labels)[f"{GKE}/compute-class"] == "Performance"
    assert kind.taints == (("kubernetes.io/arch", "arm64", "NoSchedule"),)
    assert "kubernetes.io/arch=arm64:NoSchedule" in kind.unmet(SMALL)


def test_the_taint_of_a_class_is_there_for_pods_that_tolerate_it_themselves() -> None:
    tolerations = [{"key": f"{GKE}/compute-class", "operator": "Equal", "value": "Performance", "effect": "NoSchedule"}]
    wanted = needs(pod("clients", {"cpu": "14"}, tolerations=tolerations))
    c4 = next(machine for machine in machines("c4") if machine.vcpu == 16)
    offer = Offer(machine=c4, mode="on-demand", zone="europe-west4-a", compute_class="Performance")
    assert template(offer, wanted).taints == ((f"{GKE}/compute-class", "Performance", "NoSchedule"),)
    assert template(offer, SMALL).taints == ()


def test_a_class_that_falls_back_to_spot_does_not_lock_out_pods_that_never_asked_for_it() -> None:
    bare = needs(gpu_pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}], nodeSelector={}))
    offer = Offer(machine=A4, mode="spot", zone="europe-west4-b", compute_class="compute-class", by_class=True)
    assert template(offer, bare).unmet(bare) == ""


def test_a_thousand_nodes_have_a_thousand_names_addresses_and_pod_ranges() -> None:
    numbers = range(1, 1001)
    assert len({node_name(SPOT, number, "vllm-inference-cluster") for number in numbers}) == 1000
    assert max(len(node_name(SPOT, number, "a-name-that-is-rather-long-for-a-cluster")) for number in numbers) <= 63
    assert len({IPv4Address(node_address(number)) for number in numbers}) == 1000
    ranges = [IPv4Network(pod_range(number)) for number in numbers]
    assert len(set(ranges)) == 1000
    assert {one.prefixlen for one in ranges} == {26}
    assert all(one.subnet_of(IPv4Network("10.64.0.0/11")) for one in ranges)
