"""Nodes for pods that no node takes, on an API that keeps what it is given: what no drill would tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.nodes.labels import GPU_COUNT_LABEL, GPU_LABEL, MACHINE_TYPE, SPOT, ZONE
from lab.nodes.maker import NodeMaker
from lab.nodes.pods import GPU, quantity, requests, wanted_labels
from tests.support.stacks import opened_stack

Pod = dict[str, Any]


class Cluster:
    """Both mirrors and the API: what is created is there at once."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}
        self.pods: list[Pod] = []

    def create(self, node: Any) -> Any:
        self.nodes[node["metadata"]["name"]] = node
        return node


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def maker(cluster: Cluster) -> NodeMaker:
    nodes: Any = SimpleNamespace(all=lambda: list(cluster.nodes.values()))
    pods: Any = SimpleNamespace(all=lambda: list(cluster.pods))
    api: Any = cluster
    return NodeMaker(api, opened_stack("spot").settings, nodes, pods)


def pod(name: str, asked: dict[str, str], *, node: str = "", **spec: Any) -> Pod:
    """A pod on a node, or one that the scheduler could not place."""
    conditions = (
        [] if node else [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]
    )
    placed = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": name, "namespace": "vllm"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": asked}}], **placed, **spec},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }


def server(name: str, node: str = "", **spec: Any) -> Pod:
    return pod(name, {GPU: "8", "cpu": "100"}, node=node, nodeSelector={SPOT: "true", GPU_COUNT_LABEL: "8"}, **spec)


def look(maker: NodeMaker, times: int = 3) -> None:
    for _ in range(times):
        maker._look()


def test_each_server_gets_the_stacks_machine_and_no_more(maker: NodeMaker, cluster: Cluster) -> None:
    cluster.pods = [server("a"), server("b")]
    look(maker)
    assert len(cluster.nodes) == 2
    machine = opened_stack("spot").settings.machine
    for node in cluster.nodes.values():
        labels = node["metadata"]["labels"]
        assert labels[MACHINE_TYPE] == machine.type
        assert (labels[GPU_LABEL], labels[GPU_COUNT_LABEL]) == (machine.accelerator, str(machine.gpus))
        assert labels[ZONE] in opened_stack("spot").settings.zones
        assert labels[SPOT] == "true"
        assert {taint["key"] for taint in node["spec"]["taints"]} == {"nvidia.com/gpu", SPOT}


def test_a_mirror_that_lags_behind_makes_no_node_twice(cluster: Cluster) -> None:
    late: Any = SimpleNamespace(all=list)
    pods: Any = SimpleNamespace(all=lambda: list(cluster.pods))
    api: Any = cluster
    cluster.pods = [server("a"), pod("b", {"cpu": "1"})]
    look(NodeMaker(api, opened_stack("spot").settings, late, pods))
    assert len(cluster.nodes) == 2


def test_a_machine_is_what_it_is_whatever_a_pod_asks_for(maker: NodeMaker, cluster: Cluster) -> None:
    cluster.pods = [pod("a", {GPU: "8"}, nodeSelector={GPU_LABEL: "nvidia-of-tomorrow", ZONE: "europe-west4-z"})]
    look(maker)
    (node,) = cluster.nodes.values()
    assert node["metadata"]["labels"][GPU_LABEL] != "nvidia-of-tomorrow"
    assert node["metadata"]["labels"][ZONE] == "europe-west4-z"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("64Gi", 64 * 2**30),
        ("1.5k", 1500),
        (8, 8),
        ("2Ti", 2 * 2**40),
        ("1E", 1e18),
        ("1e3", 1e3),
        ("1u", 1e-6),
    ],
)
def test_quantities(text: Any, number: float) -> None:
    assert quantity(text) == number


def test_a_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="much"):
        quantity("much")


def test_requests_count_sidecars_and_the_largest_init_container() -> None:
    one = pod("a", {"cpu": "1"})
    one["spec"]["initContainers"] = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        {"name": "first", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    ]
    assert requests(one) == {"cpu": 3.0, "memory": 2**30}


def test_labels_come_from_selector_and_affinity() -> None:
    terms = [
        {"matchExpressions": [{"key": "x", "operator": "In", "values": ["1", "2"]}, {"key": "y", "operator": "Exists"}]}
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    one = pod("a", {}, nodeSelector={"z": "3"}, affinity={"nodeAffinity": required})
    assert wanted_labels(one) == {"x": "1", "y": "true", "z": "3"}
