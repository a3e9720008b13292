"""Machines, Spot notices and kubelet stages against Kubernetes' own scheduler and controllers."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lab.cloud.kubelet_stages import kubelet_stages
from lab.cloud.provisioner import Provisioner
from lab.cloud.spot import kill_containers, shut_down
from lab.cloud.standby import Standby
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.cloud.world import World, condition, is_ready
from lab.control_plane.api import DEPLOYMENT, EVENT, JOB, NODE, POD, ClusterApi, Manifest
from lab.results.clock import Clock
from tests.lab.cloud.fake_world import GKE, GPU_TOLERATIONS, SPOT
from tests.lab.shapes import manifests

if TYPE_CHECKING:
    from lab.control_plane.build import Binaries
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
SPEED = 240.0
WAIT = 90.0
"""Wall time until a state counts as missed; the clock's own waits are seconds, the rest is a busy machine."""
TIMINGS = Timings()
SERVERS = 12


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[tuple[ControlPlane, Clock]]:
    from lab.control_plane.cluster import ControlPlane
    from lab.control_plane.custom_resources.definitions import definitions
    from lab.control_plane.custom_resources.install import install
    from lab.control_plane.modules import module_folders

    clock = Clock(SPEED)
    with ControlPlane(binaries, stages=kubelet_stages(TIMINGS, clock)) as running:
        install(running.api, definitions(module_folders(print)))
        yield running, clock


@pytest.fixture
def scene(plane: tuple[ControlPlane, Clock], request: pytest.FixtureRequest) -> Iterator[Scene]:
    running, clock = plane
    space = request.node.name.replace("test_", "").replace("_", "-")[:40].strip("-")
    running.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    with ExitStack() as stack:
        scene = Scene(running, clock, space)
        for one in (scene.world, scene.provisioner, scene.standby):
            stack.enter_context(one)  # type: ignore[arg-type]
        yield scene
        scene.tidy()


class Scene:
    """A namespace of its own, and Google's part."""

    def __init__(self, running: ControlPlane, clock: Clock, space: str) -> None:
        self.plane, self.clock, self.space = running, clock, space
        self.api: ClusterApi = running.api
        self.world = World(self.api, clock)
        self.stock = Stock()
        self.provisioner = Provisioner(self.world, self.stock, TIMINGS)
        self.standby = Standby(self.world)

    def tidy(self) -> None:
        for kind in (DEPLOYMENT, JOB):
            for one in self.api.list_all(kind, self.space):
                self.api.delete(kind, one["metadata"]["name"], self.space)
        self.until(lambda: not self.pods(), "the pods to go")
        # Ten simulated minutes later they would go by themselves; the next test must not find them.
        for node in self.world.nodes.all():
            self.api.delete(NODE, node["metadata"]["name"])
        self.until(lambda: not self.world.nodes.all(), "the machines to go")

    def apply(self, manifest: Manifest) -> Manifest:
        made = copy.deepcopy(manifest)
        made["metadata"]["namespace"] = self.space
        return self.api.apply(made)

    def server(self, replicas: int = SERVERS, **spec: Any) -> None:
        """The Spot stack's own server, without its volume and its account."""
        (made,) = [manifest for manifest in manifests("spot") if manifest["kind"] == "Deployment"]
        without_weights(made)
        made["spec"]["template"]["spec"].update(spec)
        made["spec"]["replicas"] = replicas
        self.apply(made)

    def scale(self, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        self.api.patch(DEPLOYMENT, "qwen35-server", self.space, body, subresource="scale")

    def job(self, app: str, *, template: Manifest | None = None, **spec: Any) -> None:
        container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        pod: Manifest = {"restartPolicy": "Never", "containers": [container], **(template or {})}
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": app},
            "spec": {
                "backoffLimit": 2,
                **spec,
                "template": {"metadata": {"labels": {"app": app}, **(pod.pop("metadata", {}))}, "spec": pod},
            },
        }
        self.apply(made)

    def pods(self) -> list[Manifest]:
        return [pod for pod in self.world.pods.all() if pod["metadata"]["namespace"] == self.space]

    def ready(self) -> list[Manifest]:
        return [one for one in self.pods() if is_ready(one)]

    def machines(self, key: str = "node.kubernetes.io/instance-type") -> list[str]:
        return sorted(node["metadata"]["labels"][key] for node in self.world.nodes.all())

    def until(self, found: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            answer = found()
            if answer:
                return answer
            time.sleep(0.02)
        seen = [(one["metadata"]["name"], one["spec"].get("nodeName"), one["status"]["phase"]) for one in self.pods()]
        raise AssertionError(f"waited for {what}; pods {seen}; {len(self.world.nodes.all())} nodes")

    def until_ready(self, count: int) -> float:
        self.until(lambda: len(self.ready()) == count, f"{count} Ready pods")
        return self.clock.now_seconds()


def without_weights(deployment: Manifest) -> None:
    """Without volume and account."""
    template = deployment["spec"]["template"]["spec"]
    template.pop("serviceAccountName")
    template["volumes"] = [volume for volume in template["volumes"] if "persistentVolumeClaim" not in volume]
    mounts = template["containers"][0]["volumeMounts"]
    template["containers"][0]["volumeMounts"] = [mount for mount in mounts if mount["name"] != "weights"]


def test_twelve_servers_on_twelve_spot_machines(scene: Scene) -> None:
    began = scene.clock.now_seconds()
    scene.server()
    took = scene.until_ready(SERVERS) - began
    assert took >= 10 + 300 + TIMINGS.large_image_pull_seconds + TIMINGS.server_load_seconds
    assert scene.machines() == ["a4-highgpu-8g"] * SERVERS
    assert scene.machines("topology.gke.io/zone") == ["europe-west4-b"] * SERVERS
    nodes = [pod["spec"]["nodeName"] for pod in scene.pods()]
    assert len(set(nodes)) == SERVERS
    assert len({pod["status"]["podIP"] for pod in scene.pods()}) == SERVERS
    (status,) = scene.pods()[0]["status"]["containerStatuses"]
    assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0)
    assert "running" in status["state"]


def test_a_thirteenth_without_stock_waits_and_says_why(scene: Scene) -> None:
    scene.stock.spot_nodes = 2
    scene.server(3)
    scene.until_ready(2)
    (waiting,) = [pod for pod in scene.pods() if not pod["spec"].get("nodeName")]
    assert (
        "no Spot capacity for a4-highgpu-8g"
        in scene.until(lambda: scene.provisioner.why_pending(waiting), "a reason").message
    )

    def told() -> list[str]:
        events = scene.api.list_all(EVENT, scene.space, field_selector="reason=FailedScaleUp")
        return [event["message"] for event in events if "GCE out of resources" in event["message"]]

    scene.until(told, "the event, which is written after the reason is known")
    scene.stock.spot_nodes = 3
    scene.until_ready(3)
    assert len(scene.machines()) == 3


def test_preempted_servers_are_replaced_on_new_machines(scene: Scene) -> None:
    scene.server(4)
    scene.until_ready(4)
    victims = [pod["spec"]["nodeName"] for pod in scene.pods()[:3]]
    preemption = shut_down(scene.world, victims)
    assert len(preemption.pods) == 3
    scene.until(lambda: len(scene.ready()) == 1, "three servers to be unready")
    assert preemption.wait(WAIT)
    scene.until(lambda: not {node["metadata"]["name"] for node in scene.world.nodes.all()} & set(victims), "them gone")
    scene.until_ready(4)
    assert not {pod["spec"]["nodeName"] for pod in scene.pods()} & set(victims)
    assert len(scene.machines()) == 4


def test_a_dead_process_restarts_its_whole_server_where_it_is(scene: Scene) -> None:
    scene.server(2)
    scene.until_ready(2)
    victim = scene.pods()[0]
    began = scene.clock.now_seconds()
    kill_containers(scene.world, victim, exit_code=1, reason="Error")
    scene.until(lambda: len(scene.ready()) == 1, "one server unready")
    assert scene.until_ready(2) - began >= TIMINGS.server_load_seconds
    after = scene.world.pods.get(victim["metadata"]["name"], scene.space)
    assert after is not None
    assert after["spec"]["nodeName"] == victim["spec"]["nodeName"]
    (status,) = after["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 1


def test_deletion_takes_pre_stop_and_exit_and_no_longer_than_the_grace(scene: Scene) -> None:
    scene.server(1, terminationGracePeriodSeconds=3600)
    scene.until_ready(1)
    (pod,) = scene.pods()
    began = scene.clock.now_seconds()
    scene.api.delete(POD, pod["metadata"]["name"], scene.space)
    scene.until(lambda: scene.world.pods.get(pod["metadata"]["name"], scene.space) is None, "the pod to go")
    took = scene.clock.now_seconds() - began
    assert took >= 5 + TIMINGS.exit_seconds
    assert took < 3600


def test_jobs_end_by_themselves(scene: Scene) -> None:
    init = {"name": "fetch", "image": "image", "resources": {"requests": {"cpu": "1"}}}
    scene.job("good", template={"initContainers": [init]})

    def complete() -> bool:
        found = scene.api.get(JOB, "good", scene.space)
        return found is not None and condition(found, "Complete") == "True"

    scene.until(complete, "the Job")
    (pod,) = scene.pods()
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert set(scene.machines(f"{GKE}/machine-family")) == {"e2"}


def test_a_job_pod_that_is_deleted_counts_as_failed_and_is_replaced(scene: Scene) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    scene.job("long", template={"metadata": {"annotations": {}}}, podFailurePolicy={"rules": rules})
    scene.until(lambda: [pod for pod in scene.pods() if pod["status"]["phase"] == "Running"], "a running pod")
    (pod,) = scene.pods()
    scene.api.evict(scene.space, pod["metadata"]["name"])
    scene.until(lambda: {one["metadata"]["name"] for one in scene.pods()} - {pod["metadata"]["name"]}, "another pod")


def test_the_benchmark_gets_a_c4_machine_for_each_of_its_pods(scene: Scene) -> None:
    (real,) = [
        manifest
        for manifest in manifests("spot")
        if manifest["kind"] == "Job" and "benchmark" in manifest["metadata"]["name"]
    ]
    real["spec"]["template"]["spec"].pop("serviceAccountName")
    scene.apply(real)

    def complete() -> bool:
        found = scene.api.get(JOB, real["metadata"]["name"], scene.space)
        return found is not None and condition(found, "Complete") == "True"

    scene.until(lambda: len(scene.machines()) == 2, "two machines")
    assert scene.machines() == ["c4-standard-16"] * 2
    scene.until(complete, "the benchmark")


def test_of_two_endpoint_pickers_one_is_ready(scene: Scene) -> None:
    probe = {"grpc": {"port": 9003}}
    container = {
        "name": "epp",
        "image": "epp",
        "args": ["--ha-enable-leader-election"],
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    labels = {"inferencepool": "pool-epp"}
    scene.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "pool-epp"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )
    scene.until(lambda: [pod["status"]["phase"] for pod in scene.pods()] == ["Running", "Running"], "both to run")
    scene.until_ready(1)
    scene.clock.sleep(60)
    (leader,) = scene.ready()
    scene.api.delete(POD, leader["metadata"]["name"], scene.space)
    scene.until(lambda: [p for p in scene.ready() if p["metadata"]["uid"] != leader["metadata"]["uid"]], "the other")


def test_a_fleet_that_is_paused_gives_its_machines_back(scene: Scene) -> None:
    scene.server(2)
    scene.until_ready(2)
    began = scene.clock.now_seconds()
    scene.scale(0)
    scene.until(lambda: not scene.world.nodes.all(), "the machines to go")
    assert scene.clock.now_seconds() - began >= TIMINGS.scale_down_seconds
    scene.scale(1)
    scene.until_ready(1)


def test_an_api_server_that_restarts_loses_no_machine(scene: Scene) -> None:
    scene.server(2)
    scene.until(lambda: len(scene.provisioner._orders) == 2, "two machines on their way")
    scene.plane.restart_api_server(down_seconds=4.0)
    scene.until_ready(2)
    assert len(scene.machines()) == 2


def test_a_pod_that_no_machine_suits_is_explained(scene: Scene) -> None:
    scene.server(1, nodeSelector={**SPOT, "disk": "golden"}, tolerations=GPU_TOLERATIONS)
    (pod,) = scene.until(scene.pods, "the pod")
    assert "disk: golden" in scene.until(lambda: scene.provisioner.why_pending(pod), "a reason").message
