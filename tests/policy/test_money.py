from __future__ import annotations

import money
from pods import pods
from rule import Resource
from tests.policy.samples import SPOT, kubernetes, server

ZONE = {"topology.kubernetes.io/zone": "europe-west4-b"}


def test_a_pod_in_a_zone_costs_what_its_region_does() -> None:
    """Other prices of pods stand in tests/goldens/policy."""
    assert "list price of europe-west4" in money.at_stake(server(selector=SPOT | ZONE, replicas=1))


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
