from __future__ import annotations

from dataclasses import replace

import money
from pods import pods
from rule import Resource
from tests.policy.samples import RESERVED, SPOT, kubernetes, server
from tests.support.rows import each_row

ZONE = {"topology.kubernetes.io/zone": "europe-west4-b"}
L4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}


@each_row(
    ("told", "subject"),
    [
        ("at least $391.28 an hour (12 A4 nodes, Spot, list price of us-east4, 2026-07-03, the lowest)", server()),
        (
            "$408.88 an hour (12 A4 nodes, Spot, list price of europe-west4, 2026-07-03)",
            replace(server(), region="europe-west4"),
        ),
        (
            "$34.07 an hour (1 A4 node, Spot, list price of europe-west4, 2026-07-03)",
            server(selector=SPOT | ZONE, replicas=1),
        ),
        (
            "at least $88.93 an hour (1 A4 node, reserved, 1-year commitment, list price of us-central1, 2026-07-30, the lowest)",
            server(selector=RESERVED, replicas=1),
        ),
        (
            "at least $1.00 an hour (1 G2 node, on demand, list price of us-east4, 2026-07-30, the lowest)",
            server(selector=L4, gpus=1, cpu="9", replicas=1),
        ),
        ("12 GPU nodes, no published price", server(selector=T4)),
        (
            "12 A4 nodes, whose price depends on what ComputeClass a-class chooses",
            server(
                selector={
                    "cloud.google.com/gke-accelerator": "nvidia-b200",
                    "cloud.google.com/compute-class": "a-class",
                }
            ),
        ),
    ],
)
def test_money_follows_the_region_and_the_way_the_nodes_are_bought(told: str, subject: Resource) -> None:
    assert money.at_stake(subject) == told


def test_pods_that_share_a_machine_pay_for_it_once() -> None:
    shared = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb", "cloud.google.com/gke-accelerator-count": "8"}
    (pod,) = pods(server(selector=shared, gpus=2, cpu="40", replicas=5))
    assert pod.machine is not None
    assert (pod.machine.type, pod.gpu_nodes) == ("a3-highgpu-8g", 2)


def test_what_takes_no_gpu_node_costs_none() -> None:
    assert money.at_stake(server(replicas=0)) == ""
    assert money.at_stake(server(gpus=0)) == ""
    assert (
        money.at_stake(kubernetes("core/v1:ResourceQuota", {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})) == ""
    )


def test_two_pods_of_four_gpus_are_priced_as_two_nodes() -> None:
    # B200 nodes are never shared on Autopilot; elsewhere this says too much rather than too little.
    (pod,) = pods(server(gpus=4, replicas=2))
    assert pod.gpu_nodes == 2


def test_the_region_is_the_clusters_or_that_of_the_disks_and_its_price_counts() -> None:
    (pod,) = pods(server())
    cluster = Resource(type="gcp:container/cluster:Cluster", props={"location": "us-central1"})
    disk = kubernetes(
        "storage.k8s.io/v1:StorageClass",
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["europe-west4-b"]}]}]},
    )
    assert money.region_of([disk, cluster]) == "us-central1"
    price = money.node_price(pod, money.region_of([disk]))
    assert price is not None
    assert price.usd == 34.0736
    assert money.region_of([server()]) == ""
    assert money.node_price(pod, "") is None
