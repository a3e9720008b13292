"""The webhook of managed Prometheus, asked by a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lab.cloud.kubelet_stages import kubelet_stages
from lab.cloud.managed_prometheus import SYSTEM_NAMESPACE, ManagedPrometheus
from lab.cloud.provisioner import Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import UNANSWERED, ApiRefusedError, ClusterApi, Manifest
from lab.results.clock import Clock
from tests.lab.cloud.fake_world import gpu_pod

if TYPE_CHECKING:
    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
SPEED = 240.0
WAIT = 60.0
"""Wall time; two simulated minutes are half a second of it, the rest is a busy machine."""
TIMINGS = Timings()


@pytest.fixture
def world(binaries: Binaries) -> Iterator[World]:
    """A cluster on which nobody runs anything, as it is seconds after it was made."""
    from lab.control_plane.cluster import ControlPlane
    from lab.control_plane.custom_resources.definitions import definitions
    from lab.control_plane.custom_resources.install import install
    from lab.control_plane.modules import module_folders

    clock = Clock(SPEED)
    with ControlPlane(binaries, stages=kubelet_stages(TIMINGS, clock)) as running, ExitStack() as stack:
        install(running.api, definitions(module_folders(print)))
        running.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vllm"}})
        world = World(running.api, clock)
        parts: tuple[Any, ...] = (Provisioner(world, Stock(), TIMINGS), ManagedPrometheus(world, TIMINGS))
        for one in (world, *parts):
            stack.enter_context(one)
        yield world


def within(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def written(api: ClusterApi) -> bool:
    try:
        api.apply(rules())
    except ApiRefusedError as refusal:
        assert (refusal.status, UNANSWERED in refusal.message) == (500, True)
        return False
    return True


def rules() -> Manifest:
    group = {"name": "fleet", "interval": "30s", "rules": [{"record": "fleet:up", "expr": "1"}]}
    metadata = {"name": "qwen35-server", "namespace": "vllm"}
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "Rules",
        "metadata": metadata,
        "spec": {"groups": [group]},
    }


def test_rules_are_refused_until_a_pod_of_the_users_has_brought_nodes(world: World) -> None:
    assert within(lambda: any(pod["metadata"]["namespace"] == SYSTEM_NAMESPACE for pod in world.pods.all()))
    world.clock.sleep(600)
    assert world.nodes.all() == []
    assert not written(world.api)

    server = gpu_pod()
    world.api.apply({**server, "metadata": {"name": "server-0", "namespace": "vllm"}})
    assert within(lambda: written(world.api))
    (operator,) = (pod for pod in world.pods.all() if pod["metadata"]["namespace"] == SYSTEM_NAMESPACE)
    (node,) = (one for one in world.nodes.all() if one["metadata"]["name"] == operator["spec"]["nodeName"])
    assert node["metadata"]["labels"]["cloud.google.com/machine-family"] == "e2"
