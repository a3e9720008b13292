"""What the cluster's objects say of a launch: stages, reasons, ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.launch import Launched
from fleet.bench.run.servers import ServerPod, require_ready
from fleet.bench.run.wanted import Changes, settings_for
from fleet.bench.run.watching import watch
from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.kubectl import Kubectl
from fleet.clients.storage import Bucket
from fleet.jobs.cluster_view import JOB_LABEL, look, stage_of
from fleet.jobs.display import State
from fleet.jobs.job import ended
from tests.fleet.bench.run.laptop import BENCHMARK
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fleet.clients.cluster_in_files import ClusterInFiles
from tests.fleet.clients.fake_google import FakeGoogle

FORBIDDEN = 'Error from server (Forbidden): x is forbidden: User "me" cannot list resource "{}" in API group "" in the namespace "vllm"'


def pod(phase: str, *, node: str = "", **status: Any) -> dict[str, Any]:
    labels = {JOB_LABEL: "b"}
    return {
        "metadata": {"name": "b-0-x", "labels": labels},
        "spec": {"nodeName": node},
        "status": {"phase": phase, **status},
    }


UNSCHEDULABLE = pod(
    "Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}],
)


@pytest.mark.parametrize(
    ("given", "stage"),
    [
        (pod("Pending"), "unscheduled"),
        (pod("Pending", node="n"), "starting"),
        (pod("Pending", node="n", initContainerStatuses=[{"state": {"running": {}}}]), "preparing"),
        (pod("Running", node="n"), "running"),
        (pod("Failed", node="n"), "ended"),
    ],
)
def test_stages(given: dict[str, Any], stage: str) -> None:
    assert stage_of(given) == stage


def test_the_end_of_a_job() -> None:
    def job(kind: str, status: str = "True") -> dict[str, Any]:
        return {"status": {"conditions": [{"type": kind, "status": status, "reason": "R", "message": "m"}]}}

    assert ended({"status": {}}) is None
    assert ended(job("Complete")) == "Complete"
    assert ended(job("Failed")) == "Failed: R: m"
    # Kubernetes says both before a Job's pods are gone.
    assert ended(job("FailureTarget")) is None
    assert ended(job("Complete", "False")) is None


class Cluster(ClusterInFiles):
    """With the objects of the Job b."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kubectl = Kubectl(namespace="vllm", program=str(self.program))

    def has(
        self, *, job: dict[str, Any] | None = None, pod: dict[str, Any], events: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Only these; without `job` it has not ended."""
        for file in (self.cluster / "objects").iterdir():
            file.unlink()
        self.keep("job", {"metadata": {"name": "b"}, "status": {}, **(job or {})})
        self.keep("pod", pod)
        for number, event in enumerate(events):
            self.keep("event", {"metadata": {"name": f"{number}"}, **event})


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "bin")


def event(type_: str, reason: str, message: str, minute: int) -> dict[str, Any]:
    return {"type": type_, "reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:0{minute}:00Z"}


def test_the_newest_telling_event_says_why_it_waits(cluster: Cluster) -> None:
    events = [
        event("Normal", "Scheduled", "no", 3),
        event("Warning", "FailedScheduling", "0/3", 1),
        event("Normal", "TriggeredScaleUp", "c4", 2),
    ]
    cluster.has(pod=pod("Pending"), events=events)
    view = look(cluster.kubectl, "b")
    assert (view.stage, view.why, view.ended) == ("unscheduled", "TriggeredScaleUp: c4", None)
    cluster.has(pod=UNSCHEDULABLE)
    assert look(cluster.kubectl, "b").why == "Unschedulable: no node"
    waiting = {"name": "clients", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}}
    cluster.has(pod=pod("Pending", node="n", containerStatuses=[waiting]))
    assert look(cluster.kubectl, "b").why == "ImagePullBackOff: denied"


def test_events_that_may_not_be_seen_are_done_without_and_pods_are_not(cluster: Cluster, google: FakeGoogle) -> None:
    cluster.has(pod=UNSCHEDULABLE)
    cluster.trouble("get events", FORBIDDEN.format("events"))
    assert look(cluster.kubectl, "b").why == "Unschedulable: no node"
    cluster.trouble("get pods", FORBIDDEN.format("pods"))
    bucket = Bucket("results", UserCredentials(), url=google.url)
    with pytest.raises(LiveError) as caught:
        watch(cluster.kubectl, bucket, Launched("b", "0" * 36, "vllm", "try"), lambda _: None, poll_seconds=0.01)
    assert caught.value.reason == "forbidden"
    assert "fleet bench fetch b-" in str(caught.value)


def test_containers_that_ended_badly_are_named(cluster: Cluster) -> None:
    over = {"name": "tokenizer", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    sound = {"name": "clients", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    status = {"initContainerStatuses": [over], "containerStatuses": [sound]}
    cluster.has(pod=pod("Failed", node="n", **status))
    (failure,) = look(cluster.kubectl, "b").failures
    assert (failure.container, failure.why) == ("tokenizer", "exit code 137 (OOMKilled)")


def test_a_job_that_is_gone_ends_the_watch(cluster: Cluster, google: FakeGoogle) -> None:
    bucket = Bucket("results", UserCredentials(), url=google.url)
    launched = Launched("b", "0" * 36, "vllm", "try")
    with pytest.raises(LiveError, match="was deleted"):
        watch(cluster.kubectl, bucket, launched, lambda _: None, poll_seconds=0.01)


@pytest.mark.parametrize(
    "says",
    [
        "Unable to connect to the server: dial tcp: i/o timeout",
        "Error from server: etcdserver: leader changed",
        "error: words that nobody has heard before",
    ],
)
def test_a_cluster_that_is_silent_for_a_while_is_waited_for(cluster: Cluster, google: FakeGoogle, says: str) -> None:
    bucket = Bucket("results", UserCredentials(), url=google.url)
    launched = Launched("b", "0" * 36, "vllm", "try")
    trouble = cluster.trouble("get", says)
    seen: list[State] = []

    def show(state: State) -> None:
        seen.append(state)
        trouble.unlink(missing_ok=True)
        cluster.has(job={"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, pod=pod("Succeeded"))

    assert watch(cluster.kubectl, bucket, launched, show, poll_seconds=0.01).failed == ""
    assert [state.phase for state in seen] == ["no answer, trying again"]
    trouble.write_text("Unable to connect to the server: dial tcp: i/o timeout")
    with pytest.raises(LiveError, match="fleet bench fetch b-00000000 --stack try"):
        watch(cluster.kubectl, bucket, launched, lambda _: None, poll_seconds=0.01, patience_seconds=0.0)


@pytest.mark.parametrize(
    ("replicas", "ready", "unready", "words"),
    [
        ("1", 1, 0, ""),
        ("1", 0, 1, "0 of 1"),
        ("1", 1, 1, "of 2 pods"),
        ("external", 3, 1, ""),
        ("external", 0, 1, "no server"),
    ],
)
def test_servers_must_be_there_and_ready(tmp_path: Path, replicas: str, ready: int, unready: int, words: str) -> None:
    stack = SMALL_STACK.replace("replicas: 1", f"replicas: {replicas}") + BENCHMARK
    settings = settings_for(project(tmp_path, **{"try": stack}), "try", Changes())
    pods = [ServerPod("a", "n", True)] * ready + [ServerPod("b", "n", False)] * unready
    if not words:
        require_ready(pods, settings)
        return
    with pytest.raises(BenchmarkError, match=words):
        require_ready(pods, settings)
