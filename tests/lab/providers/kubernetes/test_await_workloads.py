"""When workloads count as ready: objects as the API gives them, and Pulumi's verdict."""

from __future__ import annotations

from typing import Any

import pytest

from lab.providers.kubernetes.await_workloads import deployment, job
from lab.providers.kubernetes.verdict import Context, Failed, Ready, Waiting

REVISION = "deployment.kubernetes.io/revision"
AVAILABLE = {"type": "Available", "status": "True"}
UNAVAILABLE = {
    "type": "Available",
    "status": "False",
    "reason": "MinimumReplicasUnavailable",
    "message": "Deployment does not have minimum availability.",
}
ROLLED_OUT = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
ROLLING = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
TOO_LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "has timed out"}


def a_deployment(
    *conditions: dict[str, Any], revision: str = "1", generation: int = 1, seen: int = 1
) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation, "annotations": {REVISION: revision} if revision else {}},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": seen, "conditions": list(conditions)},
    }


def a_replica_set(ready: int | None, replicas: int = 2, revision: str = "1") -> dict[str, Any]:
    status = {} if ready is None else {"readyReplicas": ready}
    return {"metadata": {"annotations": {REVISION: revision}}, "spec": {"replicas": replicas}, "status": status}


def a_claim(phase: str) -> dict[str, Any]:
    return {"metadata": {"name": "weights"}, "status": {"phase": phase}}


def verdict(one: dict[str, Any], *sets: dict[str, Any], claims: tuple[dict[str, Any], ...] = ()) -> Any:
    return deployment(one, Context(replica_sets=sets, claims=claims))


@pytest.mark.parametrize(
    ("one", "sets", "missing"),
    [
        (a_deployment(AVAILABLE, generation=2, seen=1), [a_replica_set(2)], "deployment controller"),
        (a_deployment(AVAILABLE, revision=""), [a_replica_set(2)], "first ReplicaSet"),
        (a_deployment(AVAILABLE, revision="2"), [a_replica_set(2)], "ReplicaSet of revision 2"),
        (a_deployment(UNAVAILABLE), [a_replica_set(None)], "0 of 2 pods ready"),
        (a_deployment(AVAILABLE), [a_replica_set(1)], "1 of 2 pods ready"),
        (a_deployment(UNAVAILABLE), [a_replica_set(2)], "to be available"),
        (a_deployment(AVAILABLE, ROLLING, revision="2"), [a_replica_set(2, revision="2")], "rollout to finish"),
        (a_deployment(AVAILABLE, TOO_LATE, revision="2"), [a_replica_set(2, revision="2")], "has timed out"),
    ],
)
def test_a_deployment_is_waited_for(one: dict[str, Any], sets: list[dict[str, Any]], missing: str) -> None:
    found = verdict(one, *sets)
    assert isinstance(found, Waiting)
    assert missing in found.missing


def test_a_first_revision_needs_no_rollout() -> None:
    assert isinstance(verdict(a_deployment(AVAILABLE, ROLLING), a_replica_set(2)), Ready)


def test_a_later_revision_is_rolled_out() -> None:
    old = a_replica_set(0, 0)
    assert isinstance(
        verdict(a_deployment(AVAILABLE, ROLLED_OUT, revision="2"), old, a_replica_set(2, revision="2")), Ready
    )


def test_the_live_replica_set_says_how_many_and_not_the_program() -> None:
    scaled_by_hand = a_replica_set(1, replicas=1)
    assert isinstance(verdict(a_deployment(AVAILABLE), scaled_by_hand), Ready)


def test_zero_replicas_are_ready_at_once_and_say_so() -> None:
    found = verdict(a_deployment(AVAILABLE), a_replica_set(None, replicas=0))
    assert isinstance(found, Ready)
    assert "zero" in found.note


def test_every_mounted_claim_is_bound() -> None:
    ready = a_deployment(AVAILABLE), a_replica_set(2)
    waiting = verdict(*ready, claims=(a_claim("Pending"),))
    assert isinstance(waiting, Waiting)
    assert "claim weights" in waiting.missing
    assert isinstance(verdict(*ready, claims=(a_claim("Bound"),)), Ready)


def a_job(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {}, "status": {"conditions": list(conditions), **status}}


def test_a_job_that_completes() -> None:
    assert job(a_job(), Context()) == Waiting("the Job to start")
    running = job(a_job(startTime="now", active=1), Context())
    assert isinstance(running, Waiting)
    assert "1 active, 0 succeeded" in running.missing
    assert job(a_job({"type": "Complete", "status": "True"}, startTime="now"), Context()) == Ready()


def test_a_failed_job_is_given_up_at_once_with_its_reason() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    assert job(a_job(failed, startTime="now"), Context()) == Failed("[BackoffLimitExceeded] too often")
