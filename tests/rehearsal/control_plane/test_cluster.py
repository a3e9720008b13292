"""The control plane as a whole. Each test that starts one is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.api import DEPLOYMENT, NAMESPACE, NODE, POD
from rehearsal.mirror import Mirror
from rehearsal.simulation.world import SIMULATED_NODE, is_ready

if TYPE_CHECKING:
    from rehearsal.control_plane.cluster import ControlPlane


def simulated_node(name: str) -> dict[str, Any]:
    size = {"cpu": "224", "memory": "3900Gi", "pods": "32", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {SIMULATED_NODE: "fake"}},
        "status": {"capacity": size, "allocatable": size},
    }


@pytest.mark.slow
def test_pods_of_a_deployment_get_ready_on_simulated_nodes(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ready"}})
    api.create(simulated_node("ready-0"))
    with Mirror(api, POD, namespace="ready") as pods:
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        api.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "ready"},
                "spec": {
                    "replicas": 4,
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}},
                },
            }
        )
        assert pods.wait_for(lambda seen: sum(map(is_ready, seen.objects.values())) == 4, 30)
    api.delete(DEPLOYMENT, "d", "ready")
    api.delete(NODE, "ready-0")
    api.delete(NAMESPACE, "ready")
