"""When Pulumi takes a workload for ready: Deployment and Job.

Source: pulumi-kubernetes 4, provider/pkg/await (deployment.go, job.go), and what the 4.34.2 SDK says of
each class. A ReplicaSet and a CronJob are not waited for.
"""

from __future__ import annotations

from typing import Final

from fleet.rehearse.apply.verdict import (
    Context,
    Failed,
    Manifest,
    Ready,
    Verdict,
    Waiting,
    condition,
    holds,
    observed,
    said,
)

REVISION: Final = "deployment.kubernetes.io/revision"


def deployment(one: Manifest, context: Context) -> Verdict:
    """The replica set of the current revision has all its pods ready, the Deployment is available, claims are bound."""
    if not observed(one):
        return Waiting("the deployment controller to look at it")
    revision = _revision(one)
    if not revision:
        return Waiting("its first replica set")
    trouble = [said(condition(one, type_)) for type_ in ("Progressing", "Available") if _is_false(one, type_)]
    current = next((found for found in context.replica_sets if _revision(found) == revision), None)
    if current is None:
        return Waiting(f"the replica set of revision {revision}")
    wanted = current["spec"].get("replicas", 1)
    ready = (current.get("status") or {}).get("readyReplicas", 0)
    if ready < wanted:
        return Waiting("; ".join([f"{ready} of {wanted} pods ready", *trouble]))
    if not holds(one, "Available"):
        return Waiting("; ".join(["the Deployment to be available", *trouble]))
    rolled_out = condition(one, "Progressing").get("reason") == "NewReplicaSetAvailable" and not _is_false(
        one, "Progressing"
    )
    # A first revision is created, not rolled out: the provider does not ask for the condition then.
    if revision != "1" and not rolled_out:
        return Waiting("; ".join(["the rollout to finish", *trouble]))
    unbound = [claim["metadata"]["name"] for claim in context.claims if _phase(claim) != "Bound"]
    if unbound:
        return Waiting(f"claim {', '.join(sorted(unbound))} to be bound")
    return Ready("scaled to zero: no pod has to be ready" if wanted == 0 else "")


def job(one: Manifest, context: Context) -> Verdict:  # noqa: ARG001
    """It has started and is Complete. A Failed one is given up at once."""
    status = one.get("status") or {}
    if holds(one, "Failed"):
        return Failed(said(condition(one, "Failed")) or "the Job failed")
    if not status.get("startTime"):
        return Waiting("the Job to start")
    if holds(one, "Complete"):
        return Ready()
    counts = ", ".join(f"{status.get(key, 0)} {key}" for key in ("active", "succeeded", "failed"))
    return Waiting(f"the Job to complete ({counts})")


def _revision(one: Manifest) -> str:
    return str((one["metadata"].get("annotations") or {}).get(REVISION, ""))


def _phase(one: Manifest) -> str:
    return str((one.get("status") or {}).get("phase", ""))


def _is_false(one: Manifest, type_: str) -> bool:
    return condition(one, type_).get("status") == "False"
