"""Plays the nodes for one test: the servers' pods that run, and the benchmark's pods on their way from Pending to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.control_plane.api import JOB, NAMESPACE, NODE, POD, ClusterApi, Kind
from tests.fleet.bench.run.laptop import NAMESPACE as VLLM
from tests.fleet.bench.run.laptop import SERVER, Laptop
from tests.fleet.clients.fake_google import FakeGoogle

SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
EVENT = Kind("v1", "Event")
JOB_LABEL = "batch.kubernetes.io/job-name"
C4 = {
    "cloud.google.com/compute-class": "Performance",
    "cloud.google.com/machine-family": "c4",
    "node.kubernetes.io/instance-type": "c4-standard-16",
}


def prepare(api: ClusterApi, *, replicas: int = 1, ready: bool = True) -> None:
    """Namespace, account and server pods as `pulumi up` leaves them."""
    if api.get(NAMESPACE, VLLM) is None:
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VLLM}})
    for name in ("default", "benchmark"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": VLLM}}
        until(lambda account=account: api.apply(account) is not None)
    for number in range(replicas):
        # A pod whose node is not there is taken away by the controllers, 40 to 60 s after they first miss the node.
        _add_node(api, f"gpu-{number}", {})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{SERVER}-7d9c6bf5d8-0000{number}", "namespace": VLLM, "labels": {"app": SERVER}},
            "spec": {"nodeName": f"gpu-{number}", "containers": [{"name": "vllm", "image": _image()}]},
        }
        api.apply(pod)
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": "Running", "conditions": conditions}
        api.patch(POD, pod["metadata"]["name"], VLLM, {"status": status}, subresource="status")


def clear(api: ClusterApi) -> None:
    """Take away what a test has made. The next one must not meet a pod of this one's Job, which the controllers let go of in their
    own time.
    """

    def emptied() -> bool:
        for kind in (JOB, POD):
            for item in api.list_all(kind):
                api.delete(kind, item["metadata"]["name"], item["metadata"].get("namespace"), grace_seconds=0)
        return not api.list_all(JOB) and not api.list_all(POD)

    until(emptied)
    for node in api.list_all(NODE):
        api.delete(NODE, node["metadata"]["name"])


def _image() -> str:
    """That of a stack that says nothing of it: another one would not be measured."""
    from settings.sections.server import Image

    image = Image()
    return f"hub/{image.repository}:{image.tag}@{image.digest}"


def add_c4_node(api: ClusterApi) -> None:
    """A machine that the benchmark's pods fit on."""
    _add_node(api, "c4-0", C4)


def _add_node(api: ClusterApi, name: str, labels: dict[str, str]) -> None:
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "16", "memory": "60Gi", "ephemeral-storage": "400Gi", "pods": "32"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    api.patch(NODE, name, None, {"status": status}, subresource="status")


def benchmark_pods(api: ClusterApi) -> list[dict[str, Any]]:
    """Pods of benchmark Jobs."""
    return [pod for pod in api.list_all(POD) if JOB_LABEL in pod["metadata"].get("labels", {})]


def scheduled(api: ClusterApi) -> dict[str, Any]:
    """The benchmark's pod, once it has a node."""
    until(lambda: any(pod["spec"].get("nodeName") for pod in benchmark_pods(api)))
    return benchmark_pods(api)[0]


def waits_for_a_machine(api: ClusterApi, here: Laptop) -> None:
    """Wait until `fleet` has seen that the benchmark's pods find no machine."""

    def is_told() -> bool:
        pods = {pod["metadata"]["name"] for pod in benchmark_pods(api)}
        return any(
            one.get("reason") == "FailedScheduling" and one["involvedObject"]["name"] in pods
            for one in api.list_all(EVENT)
        )

    until(is_told)
    # A look that began since then has seen it; it has been told when the next one begins.
    asked = here.looks()
    until(lambda: here.looks() >= asked + 2)


def measurement_of(pod: dict[str, Any]) -> str:
    """Name of the measurement that a pod would write."""
    labels = pod["metadata"]["labels"]
    return f"{labels[JOB_LABEL]}-{labels['batch.kubernetes.io/controller-uid'][:8]}"


def set_phase(api: ClusterApi, pod: dict[str, Any], phase: str, exit_code: int = 0) -> None:
    """What the kubelet would say of a pod."""
    state: dict[str, Any] = {"running": {"startedAt": _now()}}
    if phase in ("Succeeded", "Failed"):
        reason = "Completed" if phase == "Succeeded" else "Error"
        state = {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": _now(), "finishedAt": _now()}}
    clients = {"name": "clients", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": phase, "startTime": _now(), "containerStatuses": [clients]}
    api.patch(POD, pod["metadata"]["name"], VLLM, {"status": status}, subresource="status")


def upload(google: FakeGoogle, folder: Path, name: str) -> None:
    """Put a measurement into the bucket, as its pods would."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "dcgm.json":
            google.put(f"runs/{name}/{path.relative_to(folder)}", path.read_bytes())


@contextmanager
def playing(api: ClusterApi, play: Callable[[], None]) -> Iterator[None]:
    """Play in the background. What goes wrong there ends the Jobs, also those that come later, so that nobody waits for them, and is
    told at the end.
    """
    wrong: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            play()
        except BaseException as error:
            wrong.append(error)
            while not over.wait(0.5):
                for job in api.list_all(JOB):
                    api.delete(JOB, job["metadata"]["name"], VLLM)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
        if wrong:
            raise wrong[0]


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until it holds; what is refused meanwhile is tried again."""
    end = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
            trouble: Exception | None = None
        except Exception as error:
            trouble = error
        if time.monotonic() > end:
            raise TimeoutError("it never held") from trouble
        time.sleep(0.1)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
