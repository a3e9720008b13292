"""Why something never became ready: a cluster in that state, and the words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab.control_plane.api import (
    DEPLOYMENT,
    EVENT,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    SERVICE,
    STORAGE_CLASS,
    Kind,
)
from lab.providers.kubernetes.diagnosis import diagnose
from lab.providers.kubernetes.pod_trouble import trouble_of
from lab.providers.kubernetes.state import ObjectRef
from tests.lab.providers.kubernetes.fake_cluster import FakeCluster

SPACE = "vllm"
LABELS = {"app": "server"}
THING = Kind("example.com/v1", "Thing")


def put(cluster: FakeCluster, kind: Kind, name: str, *, labels: Any = None, owner: str = "", **fields: Any) -> str:
    metadata: dict[str, Any] = {"name": name, "namespace": SPACE, "labels": labels or {}}
    if kind == STORAGE_CLASS:
        del metadata["namespace"]
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    applied = cluster.apply({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields})
    return str(applied["metadata"]["uid"])


def warn(cluster: FakeCluster, kind: Kind, name: str, reason: str, message: str) -> None:
    about = {"kind": kind.kind, "name": name}
    put(
        cluster,
        EVENT,
        f"{name}.{len(cluster.objects)}",
        involvedObject=about,
        type="Warning",
        reason=reason,
        message=message,
    )


def a_deployment(cluster: FakeCluster, **template: Any) -> str:
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": {"spec": template}}
    return put(cluster, DEPLOYMENT, "server", spec=spec)


def why(cluster: FakeCluster, kind: Kind = DEPLOYMENT, name: str = "server") -> tuple[str, str]:
    found = diagnose(cluster, ObjectRef(kind=kind, name=name, namespace=SPACE))  # type: ignore[arg-type]
    return found.text, found.fix


@pytest.mark.parametrize(
    ("refusal", "fix"),
    [("exceeded quota: gpu, used: 96, limited: 96", "quota"), ("pods is forbidden: hostPath", "pod template")],
)
def test_what_refuses_pods(refusal: str, fix: str) -> None:
    cluster = FakeCluster()
    uid = a_deployment(cluster)
    put(cluster, REPLICA_SET, "server-1", labels=LABELS, owner=uid, spec={})
    warn(cluster, REPLICA_SET, "server-1", "FailedCreate", refusal)
    found = why(cluster)
    assert found[0].endswith(f": {refusal}")
    assert fix in found[1]


def test_another_deployments_replica_set_is_not_blamed() -> None:
    cluster = FakeCluster()
    a_deployment(cluster)
    put(cluster, REPLICA_SET, "other-1", labels=LABELS, owner="somebody else", spec={})
    warn(cluster, REPLICA_SET, "other-1", "FailedCreate", "exceeded quota: gpu")
    assert "quota" not in why(cluster)[0]


def test_a_claim_that_is_missing_and_one_that_is_not_bound() -> None:
    cluster = FakeCluster()
    a_deployment(cluster, volumes=[{"persistentVolumeClaim": {"claimName": "weights"}}])
    assert why(cluster)[1] == "create claim weights first"
    put(cluster, PERSISTENT_VOLUME_CLAIM, "weights", spec={"storageClassName": "fast"}, status={"phase": "Pending"})
    assert "StorageClass fast" in why(cluster)[0]
    put(cluster, STORAGE_CLASS, "fast", volumeBindingMode="Immediate")
    warn(cluster, PERSISTENT_VOLUME_CLAIM, "weights", "ProvisioningFailed", "throughput below 400 MiB/s")
    assert why(cluster)[0].endswith("throughput below 400 MiB/s")


def test_pods_without_a_machine_are_counted_and_the_autoscaler_is_quoted() -> None:
    cluster = FakeCluster()
    a_deployment(cluster)
    held = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    put(cluster, POD, "ready", labels=LABELS, spec={"nodeName": "n"}, status=held)
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    put(cluster, POD, "waiting", labels=LABELS, spec={}, status={"phase": "Pending", "conditions": [unscheduled]})
    assert re.match(r"1 of 2 pods: .*: 0/1 nodes", why(cluster)[0])
    warn(cluster, POD, "waiting", "FailedScaleUp", "Node scale up in zones b failed: GCE out of resources")
    text, fix = why(cluster)
    assert re.fullmatch("1 of 2 pods: .*: Node scale up .*: GCE out of resources", text)
    assert "reservation" in fix


def test_what_the_scheduler_said_before_there_was_a_machine_is_past() -> None:
    cluster = FakeCluster()
    a_deployment(cluster)
    put(cluster, POD, "placed", labels=LABELS, spec={"nodeName": "n"}, status={"phase": "Pending"})
    warn(cluster, POD, "placed", "FailedScheduling", "0/1 nodes are available")
    assert "0/1" not in why(cluster)[0]


def test_a_job_without_pods() -> None:
    cluster = FakeCluster()
    put(cluster, JOB, "job", spec={"template": {"spec": {}}})
    assert "no pods" in why(cluster, JOB, "job")[0]


def test_a_service_counts_its_pods() -> None:
    cluster = FakeCluster()
    put(cluster, SERVICE, "s", spec={"selector": LABELS})
    put(cluster, POD, "waiting", labels=LABELS, spec={}, status={})
    assert re.findall(r"\d+", why(cluster, SERVICE, "s")[0]) == ["1", "0"]


def test_a_custom_resource_speaks_by_its_status() -> None:
    cluster = FakeCluster()
    put(cluster, THING, "thing", spec={})
    assert "status" in why(cluster, THING, "thing")[0]
    warn(cluster, THING, "thing", "Sync", "no proxy-only subnet")
    assert why(cluster, THING, "thing")[0] == "no proxy-only subnet"
    conditions = [{"type": "Accepted", "status": "False", "reason": "Invalid", "message": "no such class"}]
    cluster.set_status(THING, "thing", SPACE, {"parents": [{"conditions": conditions}]})
    assert why(cluster, THING, "thing")[0] == "Accepted is False: [Invalid] no such class"
    cluster.set_status(THING, "thing", SPACE, {"error": {"message": "claim is still mounted"}})
    assert why(cluster, THING, "thing")[0] == "claim is still mounted"


def test_what_is_gone_and_what_cannot_be_asked() -> None:
    cluster = FakeCluster()
    assert "Deployment/server was deleted" in why(cluster)[0]
    cluster.down = True
    assert why(cluster)[0].endswith(": connection refused")


def a_pod(phase: str, *containers: dict[str, Any], node: str = "n", **status: Any) -> dict[str, Any]:
    return {
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (a_pod("Succeeded"), None),
        (a_pod("Running", conditions=[{"type": "Ready", "status": "True"}]), None),
        (a_pod("Failed", message="the node was preempted"), "failed: the node was preempted"),
        (
            a_pod("Failed", {"name": "c", "state": {"terminated": {"exitCode": 64, "reason": "Error"}}}),
            "failed: c ended with exit code 64 (Error)",
        ),
        (
            a_pod(
                "Pending", {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
            ),
            "the image of c cannot be pulled: not found",
        ),
        (
            a_pod(
                "Pending",
                {"name": "c", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "no s"}}},
            ),
            "c cannot be started: no s",
        ),
        (
            a_pod("Running", {"name": "c", "restartCount": 3, "lastState": {"terminated": {"exitCode": 137}}}),
            "c restarted 3 times, last exit code 137",
        ),
        (a_pod("Running"), "still loading"),
        (a_pod("Pending"), "scheduled, not started yet"),
        (a_pod("Pending", node=""), "not scheduled yet"),
    ],
)
def test_what_keeps_a_pod(pod: dict[str, Any], text: str | None) -> None:
    found = trouble_of(pod, [])
    assert (found and found.text) == text


def test_a_missing_claim_is_the_schedulers_word() -> None:
    said = {"type": "PodScheduled", "status": "False", "message": 'persistentvolumeclaim "weights" not found'}
    found = trouble_of(a_pod("Pending", node="", conditions=[said]), [])
    assert found is not None
    assert "claim" in found.fix


def test_an_evicted_pod_is_told_before_the_quota_that_refuses_its_successor_for_a_moment() -> None:
    cluster = FakeCluster()
    uid = a_deployment(cluster)
    put(cluster, REPLICA_SET, "server-1", labels=LABELS, owner=uid)
    warn(cluster, REPLICA_SET, "server-1", "FailedCreate", "exceeded quota: gpu")
    status = {"phase": "Failed", "reason": "Evicted", "message": "exceeds the total limit of containers 20Gi."}
    put(cluster, POD, "server-1-a", labels=LABELS, status=status)
    text, fix = why(cluster)
    assert "total limit of containers 20Gi" in text
    assert "ephemeral-storage" in fix
