"""A cluster in a folder: pods, nodes and gateway as the control plane would say of a stack that is up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from facts.names import epp_name
from settings.sections.gateway import GATEWAY_NAME
from settings.stack import Settings
from tests.fleet.verify import kubectl_stand_in
from tests.support.as_sent import as_sent
from tests.workloads.args import server_args
from workloads.gateway.gateway import pool_reference, route_spec
from workloads.server import pod as server_pod


class MadeCluster:
    """Change `objects` and call `write`."""

    def __init__(self, folder: Path, settings: Settings, urls: list[str]) -> None:
        self.folder, self.settings = folder, settings
        self.pods = [pod_of(settings, number) for number in range(len(urls))]
        self.nodes = [node_of(settings, number) for number in range(len(urls))]
        self.objects: dict[str, Any] = {}
        if settings.gateway.enabled:
            for name, manifest in gateway_objects(settings).items():
                kind, _, own = name.partition(" ")
                self.objects[f"{_plural(kind)}-{own}"] = manifest
        names = [pod["metadata"]["name"] for pod in self.pods]
        self.forwards = {name: url.removeprefix("http://") for name, url in zip(names, urls, strict=True)}
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "bin" / "kubectl"
        program.parent.mkdir()
        # -S -E: half the time of its start, many times over.
        program.write_text(f"#!{sys.executable} -SE\n" + Path(kubectl_stand_in.__file__).read_text())
        program.chmod(0o755)

    def write(self) -> None:
        """Put everything into files."""
        files: dict[str, Any] = {
            "pods": {"items": self.pods},
            "nodes": {"items": self.nodes},
            "forwards": self.forwards,
            **self.objects,
        }
        for name, content in files.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))

    def reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process's kubectl find it, as it is now."""
        self.write()
        monkeypatch.setenv("PATH", self.path)
        monkeypatch.setenv("FAKE_CLUSTER", str(self.folder))

    @property
    def path(self) -> str:
        """PATH with the stand-in in front."""
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    @property
    def calls(self) -> list[str]:
        """What kubectl was asked."""
        return (self.folder / "calls.txt").read_text().splitlines()


def pod_of(settings: Settings, number: int) -> dict[str, Any]:
    """A ready server pod."""
    image, args = settings.serving.image, server_args(settings)
    arguments = server_pod.arguments(args, server_pod.parts(args))
    return {
        "metadata": {"name": f"{settings.server.name}-{number:05d}"},
        "spec": {
            "nodeName": f"gke-node-{number}",
            "containers": [
                {
                    "name": "vllm",
                    "image": f"europe-west4-docker.pkg.dev/p/r/{image.reference}",
                    "args": arguments,
                    "env": [*as_sent(server_pod.environment(args, server_pod.parts(args))), *of_others()],
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": []},
    }


def of_others() -> list[dict[str, Any]]:
    """Variables that the platform and its webhooks put into pods."""
    return [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "10.0.0.1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "MESH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "mesh", "key": "token"}}},
    ]


def node_of(settings: Settings, number: int) -> dict[str, Any]:
    """The node that it stands on."""
    labels = {
        **settings.placement.node_selector,
        "cloud.google.com/gke-accelerator": settings.machine.accelerator,
        "node.kubernetes.io/instance-type": settings.machine.type,
        "topology.kubernetes.io/zone": settings.zones[0],
    }
    return {"metadata": {"name": f"gke-node-{number}", "labels": labels}}


def programmed_gateway() -> dict[str, Any]:
    """A Gateway that works, with the conditions that GKE's controller writes."""
    return {
        "status": {
            "addresses": [{"type": "IPAddress", "value": "10.0.0.50"}],
            "conditions": _true("Accepted", "Programmed"),
            "listeners": [
                {"name": "http", "attachedRoutes": 1, "conditions": _true("Accepted", "Programmed", "ResolvedRefs")}
            ],
        }
    }


def _plural(kind: str) -> str:
    return f"{kind.lower()}s".replace("policys", "policies")


def gateway_objects(settings: Settings) -> dict[str, dict[str, Any]]:
    """What a gateway that works consists of, by kind and name."""
    found = {
        f"Gateway {GATEWAY_NAME}": programmed_gateway(),
        f"HTTPRoute {settings.gateway.pool}": accepted_route(settings),
    }
    for pool in settings.shares:
        found |= {
            f"InferencePool {pool}": {"status": {"parents": [{"conditions": _true("Accepted", "ResolvedRefs")}]}},
            f"Deployment {epp_name(pool)}": {"status": {"readyReplicas": 1}},
            f"HealthCheckPolicy {pool}": {"status": {"conditions": _true("Attached")}},
            f"GCPBackendPolicy {pool}": {"status": {"conditions": _true("Attached")}},
        }
    return found


def accepted_route(settings: Settings) -> dict[str, Any]:
    """The route as the program renders it, accepted."""
    backends = [{**pool_reference(pool), "weight": share} for pool, share in settings.shares.items()]
    return {
        "spec": route_spec(GATEWAY_NAME, backends, v1_only=False),
        "status": {"parents": [{"conditions": _true("Accepted", "ResolvedRefs")}]},
    }


def outputs_of(settings: Settings, endpoint: str) -> Mapping[str, Any]:
    """Stack outputs as Pulumi prints them."""
    return {
        "endpoint": endpoint,
        "clusterName": "vllm-fleet",
        "kubeconfig": "apiVersion: v1\nkind: Config\n# kubeconfig-secret-of-the-tests\n",
        "project": "fleet-tests",
        "region": "europe-west4",
        "imagePrefix": "europe-west4-docker.pkg.dev/p/r",
        "resultsBucket": "fleet-tests-results",
        "modelRevision": settings.serving.model.revision,
        "profile": settings.serving.profile.name,
        "usdPerHour": 32.71,
        "usdPerHourIsAtLeast": True,
    }


def _true(*types: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": "True", "reason": type_} for type_ in types]
