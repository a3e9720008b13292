"""What the cluster's objects say of a launch: stages, reasons, ends."""

from __future__ import annotations

import json
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
from fleet.jobs.cluster_view import look, stage_of
from fleet.jobs.display import State
from fleet.jobs.job import ended
from tests.fleet.bench.run.laptop import BENCHMARK
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fleet.clients.fake_google import FakeGoogle
from tests.fleet.clients.programs import stand_in

FORBIDDEN = 'Error from server (Forbidden): x is forbidden: User "me" cannot list resource "{}" in API group "" in the namespace "vllm"'
CANNED = """
import json, os, pathlib, sys
words = [word for word in sys.argv[1:] if not word.startswith("--")]
folder = pathlib.Path(__file__).parent
if (folder / "trouble").exists():
    sys.exit((folder / "trouble").read_text())
kind = words[1]
found = json.loads((folder / f"{kind}.json").read_text()) if (folder / f"{kind}.json").exists() else None
if isinstance(found, str):
    sys.exit(found)
if found is None:
    sys.exit(f'Error from server (NotFound): {kind} "{words[2] if len(words) > 2 else ""}" not found')
print(json.dumps(found))
"""


def pod(phase: str, *, node: str = "", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b-0-x"}, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}


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


class Canned:
    """A kubectl that answers from files, and the object that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubectl = Kubectl(namespace="vllm", program=str(stand_in(folder, "kubectl", CANNED)))

    def has(self, **files: Any) -> None:
        for name, content in files.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def canned(tmp_path: Path) -> Canned:
    return Canned(tmp_path / "bin")


def test_the_newest_telling_event_says_why_it_waits(canned: Canned) -> None:
    events = [
        {
            "metadata": {},
            "type": "Normal",
            "reason": "Scheduled",
            "message": "no",
            "lastTimestamp": "2026-01-01T00:03:00Z",
        },
        {
            "metadata": {},
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": "0/3",
            "lastTimestamp": "2026-01-01T00:01:00Z",
        },
        {
            "metadata": {},
            "type": "Normal",
            "reason": "TriggeredScaleUp",
            "message": "c4",
            "lastTimestamp": "2026-01-01T00:02:00Z",
        },
    ]
    canned.has(job={"status": {}}, pods={"items": [pod("Pending")]}, events={"items": events})
    view = look(canned.kubectl, "b")
    assert (view.stage, view.why, view.ended) == ("unscheduled", "TriggeredScaleUp: c4", None)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    canned.has(pods={"items": [pod("Pending", conditions=[condition])]}, events={"items": []})
    assert look(canned.kubectl, "b").why == "Unschedulable: no node"
    waiting = {"name": "clients", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}}
    canned.has(pods={"items": [pod("Pending", node="n", containerStatuses=[waiting])]})
    assert look(canned.kubectl, "b").why == "ImagePullBackOff: denied"


def test_events_that_may_not_be_seen_are_done_without_and_pods_are_not(canned: Canned, google: FakeGoogle) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    pods = {"items": [pod("Pending", conditions=[condition])]}
    canned.has(job={"status": {}}, pods=pods, events=FORBIDDEN.format("events"))
    assert look(canned.kubectl, "b").why == "Unschedulable: no node"
    canned.has(pods=FORBIDDEN.format("pods"))
    bucket = Bucket("results", UserCredentials(), url=google.url)
    with pytest.raises(LiveError) as caught:
        watch(canned.kubectl, bucket, Launched("b", "0" * 36, "vllm", "try"), lambda _: None, poll_seconds=0.01)
    assert caught.value.reason == "forbidden"
    assert "fleet bench fetch b-" in str(caught.value)


def test_containers_that_ended_badly_are_named(canned: Canned) -> None:
    over = {"name": "tokenizer", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    sound = {"name": "clients", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    status = {"initContainerStatuses": [over], "containerStatuses": [sound]}
    canned.has(job={"status": {}}, pods={"items": [pod("Failed", node="n", **status)]})
    (failure,) = look(canned.kubectl, "b").failures
    assert (failure.container, failure.why) == ("tokenizer", "exit code 137 (OOMKilled)")


def test_a_job_that_is_gone_ends_the_watch(canned: Canned, google: FakeGoogle) -> None:
    bucket = Bucket("results", UserCredentials(), url=google.url)
    launched = Launched("b", "0" * 36, "vllm", "try")
    with pytest.raises(LiveError, match="was deleted"):
        watch(canned.kubectl, bucket, launched, lambda _: None, poll_seconds=0.01)


@pytest.mark.parametrize(
    "says",
    [
        "Unable to connect to the server: dial tcp: i/o timeout",
        "Error from server: etcdserver: leader changed",
        "error: words that nobody has heard before",
    ],
)
def test_a_cluster_that_is_silent_for_a_while_is_waited_for(canned: Canned, google: FakeGoogle, says: str) -> None:
    bucket = Bucket("results", UserCredentials(), url=google.url)
    launched = Launched("b", "0" * 36, "vllm", "try")
    trouble = canned.folder / "trouble"
    trouble.write_text(says)
    seen: list[State] = []

    def show(state: State) -> None:
        seen.append(state)
        trouble.unlink(missing_ok=True)
        canned.has(job={"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, pods={"items": []})

    assert watch(canned.kubectl, bucket, launched, show, poll_seconds=0.01).failed == ""
    assert [state.phase for state in seen] == ["no answer, trying again"]
    trouble.write_text("Unable to connect to the server: dial tcp: i/o timeout")
    with pytest.raises(LiveError, match="fleet bench fetch b-00000000 --stack try"):
        watch(canned.kubectl, bucket, launched, lambda _: None, poll_seconds=0.01, patience_seconds=0.0)


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
