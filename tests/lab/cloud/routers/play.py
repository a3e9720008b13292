"""Router pods of a stack and its servers, played without a cluster: the pods are told by hand."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.preview.offline import open_stack, record_stack
from lab.cloud.kubelet_stages import ANSWERS
from lab.cloud.routers.routers import Routers
from lab.control_plane.api import Kind, Manifest
from lab.stage.traffic.traffic import Load, Traffic
from lab.stage.variants import varied
from tests.lab.cloud.fake_world import feed, make_world, until
from tests.lab.stage.traffic.pods import FakeObjects, pod
from workloads.names import ROUTER_APP

NEEDS_HAPROXY = pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("haproxy") is None, reason="haproxy is not installed"
)
ROOT = Path(__file__).parents[4]
PROGRAMS_WALL_SECONDS = 60.0
"""Longest start of a pod's programs. Measured: three seconds."""
NAMESPACE, SERVER = "vllm-dev", "qwen35-server"


def objects_of(sections: Mapping[str, Any]) -> list[Manifest]:
    """Kubernetes objects of the dev stack, with changed sections."""
    recording = record_stack(varied(open_stack(ROOT, "dev"), sections), "known")
    return [dict(one.inputs) for one in recording.resources if one.type.startswith("kubernetes:")]


class Play:
    """One namespace with servers and routers."""

    def __init__(self, objects: list[Manifest], load: Load, speed: float, folder: Path) -> None:
        self.world, self.api = make_world(speed)
        (deployment,) = (
            one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == ROUTER_APP
        )
        self.template: Manifest = deployment["spec"]["template"]
        (deployment,) = (one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == SERVER)
        self.server_template: Manifest = deployment["spec"]["template"]
        for one in objects:
            self.api.objects[Kind.of(one), one["metadata"]["name"]] = one
        kubeconfig = folder / "kubeconfig"
        cluster = {"cluster": {"server": "https://127.0.0.1:1", "certificate-authority": None}}
        kubeconfig.write_text(json.dumps({"clusters": [cluster]}))
        self.routers = Routers(self.world, kubeconfig)
        self.servers = FakeObjects()
        self.traffic = Traffic(
            clock=self.world.clock,
            timeline=self.world.timeline,
            pods=self.servers,
            nodes=FakeObjects(),
            server=SERVER,
            namespace=NAMESPACE,
            model="Qwen/Qwen3.5-27B-FP8",
            load=load,
            routers=self.routers,
        )

    def add_server(self, name: str) -> None:
        one = pod(name)
        one["metadata"]["namespace"] = NAMESPACE
        self.servers.put(one)

    def run_router(self, name: str) -> Manifest:
        """A router pod whose containers start."""
        return self._run(name, self.template)

    def _run(self, name: str, template: Manifest) -> Manifest:
        one = copy.deepcopy(template)
        one["metadata"] |= {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"}
        one["status"] = {"phase": "Running", "containerStatuses": [{"name": "haproxy", "restartCount": 0}]}
        feed(self.world.pods, "added", one)
        return one

    def add_router(self, name: str) -> Manifest:
        """A router pod that runs, and is Ready once its program answers."""
        return self._ready(name, self.template)

    def add_split(self, name: str) -> Manifest:
        """A server's pod with prefill apart from decode, Ready once its programs answer."""
        return self._ready(name, self.server_template)

    def _ready(self, name: str, template: Manifest) -> Manifest:
        one = self._run(name, template)
        until(lambda: self.answers(name), f"{name} answers its probe", PROGRAMS_WALL_SECONDS)
        one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        feed(self.world.pods, "modified", one)
        return one

    def answers(self, name: str) -> bool:
        """Whether the kubelet was told that the pod answers its probe."""
        told = (body for _, pod, body, _ in list(self.api.patches) if pod == name)
        return any(((body.get("metadata") or {}).get("annotations") or {}).get(ANSWERS) == "true" for body in told)

    def delete(self, one: Manifest, grace_seconds: int) -> None:
        """`kubectl delete pod`."""
        one["metadata"] |= {"deletionTimestamp": "2026-04-01T00:00:00Z", "deletionGracePeriodSeconds": grace_seconds}
        feed(self.world.pods, "modified", one)


@contextmanager
def playing(objects: list[Manifest], load: Load, folder: Path, *, speed: float = 60.0) -> Iterator[Play]:
    made = Play(objects, load, speed, folder)
    with ExitStack() as closing:
        closing.enter_context(made.routers)
        closing.enter_context(made.traffic)
        yield made
