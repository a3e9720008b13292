"""A Deployment, its ScaledObject and the stand-in for KEDA on a control plane of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.cloud.keda.in_flight import InFlight
from lab.cloud.keda.operator import AUTOSCALER, SCALED_OBJECT, Keda
from lab.cloud.keda.wall_time import sync_wall_seconds
from lab.cloud.world import World
from lab.control_plane.api import DEPLOYMENT, NODE, ClusterApi, Manifest
from lab.control_plane.build import Binaries
from lab.control_plane.cluster import ControlPlane
from lab.control_plane.custom_resources.definitions import definitions, keda_definitions
from lab.control_plane.custom_resources.install import install
from lab.control_plane.modules import module_folders
from lab.results.clock import Clock
from lab.stage.meter import Meter

SPACE = "serving"
QUERY = (
    f'sum(vllm:num_requests_running{{app="fleet",namespace="{SPACE}"}}) + '
    f'sum(vllm:num_requests_waiting{{app="fleet",namespace="{SPACE}"}})'
)
LIMIT_WALL_SECONDS = 60.0


def scaled_object(**spec: Any) -> Manifest:
    """The ScaledObject of the documentation, with `spec` written over it."""
    trigger = {
        "type": "prometheus",
        "metadata": {
            "serverAddress": "https://monitoring.googleapis.com/v1/projects/p/location/global/prometheus",
            "query": QUERY,
            "threshold": "100",
            "ignoreNullValues": "false",
        },
        "authenticationRef": {"name": "gmp"},
    }
    up = {"stabilizationWindowSeconds": 30, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}]}
    down = {"stabilizationWindowSeconds": 2400, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 900}]}
    whole = {
        "scaleTargetRef": {"name": "fleet"},
        "minReplicaCount": 1,
        "maxReplicaCount": 6,
        "fallback": {"failureThreshold": 4, "replicas": 3, "behavior": "currentReplicasIfHigher"},
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": up, "scaleDown": down}}},
        "triggers": [trigger],
        **spec,
    }
    metadata = {"name": "fleet", "namespace": SPACE}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata,
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


@dataclass
class Played:
    """The cluster, the clock, and KEDA."""

    api: ClusterApi
    clock: Clock
    keda: Keda
    meter: Meter

    @property
    def replicas(self) -> int:
        """What the Deployment is asked for."""
        found = self.api.get(DEPLOYMENT, "fleet", SPACE)
        assert found is not None
        return int(found["spec"]["replicas"])

    def conditions(self) -> dict[str, str]:
        """The ScaledObject's, by type."""
        found = self.api.get(SCALED_OBJECT, "fleet", SPACE) or {}
        return {
            condition["type"]: condition["status"] for condition in (found.get("status") or {}).get("conditions") or ()
        }

    def autoscaler(self) -> Manifest:
        """The HPA, or nothing."""
        return self.api.get(AUTOSCALER, "keda-hpa-fleet", SPACE) or {}

    def within(self, condition: Callable[[], bool], wall_seconds: float = LIMIT_WALL_SECONDS) -> None:
        """Wait until it holds."""
        deadline = time.monotonic() + wall_seconds
        while not condition():
            assert time.monotonic() < deadline, (self.replicas, self.conditions(), self.autoscaler().get("status"))
            time.sleep(0.05)

    def seen_for(self, simulated_seconds: float) -> set[int]:
        """Every number of replicas asked for during that time."""
        until, seen = self.clock.now_seconds() + simulated_seconds, set[int]()
        while self.clock.now_seconds() < until:
            seen.add(self.replicas)
            time.sleep(0.05)
        return seen


@contextlib.contextmanager
def played(binaries: Binaries, stages: list[Manifest], *, speed: float, replicas: int) -> Iterator[Played]:
    """KEDA works, the Deployment has so many Ready pods, and there is no ScaledObject yet."""
    with ControlPlane(binaries, stages=stages, autoscaler_wall_seconds=sync_wall_seconds(speed)) as plane:
        clock = Clock(speed)
        world = World(plane.api, clock)
        meter = Meter(world, "fleet")
        in_flight = InFlight(
            clock.now_seconds,
            meter.ready_servers.at,
            capacity_per_server=100,
            request_seconds=10,
            app="fleet",
            namespace=SPACE,
        )
        keda = Keda(world, in_flight)
        modules = module_folders(print)
        install(plane.api, [*definitions(modules), *keda_definitions(modules)])
        for manifest in _objects(replicas):
            plane.api.apply(manifest)
        plane.api.patch(NODE, "big", None, {"status": {"allocatable": _ROOM, "capacity": _ROOM}}, subresource="status")
        with world, keda:
            keda.run_without_pods()
            found = Played(plane.api, clock, keda, meter)
            found.within(lambda: meter.ready_servers.now == replicas)
            yield found


_ROOM: Mapping[str, str] = {"cpu": "64", "memory": "64Gi", "pods": "110"}


def _objects(replicas: int) -> list[Manifest]:
    labels = {"app": "fleet"}
    pod = {"containers": [{"name": "vllm", "image": "vllm"}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "big", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"a": "b"}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "fleet", "namespace": SPACE},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "TriggerAuthentication",
            "metadata": {"name": "gmp", "namespace": SPACE},
            "spec": {"podIdentity": {"provider": "gcp"}},
        },
    ]
