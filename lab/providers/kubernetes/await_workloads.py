"""When Pulumi considers a Deployment or a Job ready.

Source: pulumi-kubernetes 4, provider/pkg/await (deployment.go, job.go), and the classes' docstrings in SDK 4.34.2.
"""

from __future__ import annotations

from typing import Final

from lab.providers.kubernetes.verdict import (
    Context,
    Failed,
    Manifest,
    Ready,
    Verdict,
    Waiting,
    condition,
    format_condition,
    holds,
    observed,
)

REVISION: Final = "deployment.kubernetes.io/revision"


def deployment(manifest: Manifest, context: Context) -> Verdict:
    """All pods of the current ReplicaSet are ready, the Deployment is available, and claims are bound."""
    if not observed(manifest):
        return Waiting("the deployment controller")
    revision = _revision(manifest)
    if not revision:
        return Waiting("its first ReplicaSet")
    trouble = [
        format_condition(condition(manifest, type_))
        for type_ in ("Progressing", "Available")
        if _is_false(manifest, type_)
    ]
    current = next((found for found in context.replica_sets if _revision(found) == revision), None)
    if current is None:
        return Waiting(f"the ReplicaSet of revision {revision}")
    wanted = current["spec"].get("replicas", 1)
    ready = (current.get("status") or {}).get("readyReplicas", 0)
    if ready < wanted:
        return Waiting("; ".join([f"{ready} of {wanted} pods ready", *trouble]))
    if not holds(manifest, "Available"):
        return Waiting("; ".join(["the Deployment to be available", *trouble]))
    rolled_out = condition(manifest, "Progressing").get("reason") == "NewReplicaSetAvailable" and not _is_false(
        manifest, "Progressing"
    )
    # A first revision is created, not rolled out: the provider does not require the condition.
    if revision != "1" and not rolled_out:
        return Waiting("; ".join(["the rollout to finish", *trouble]))
    unbound = [claim["metadata"]["name"] for claim in context.claims if _phase(claim) != "Bound"]
    if unbound:
        return Waiting(f"claim {', '.join(sorted(unbound))} to be bound")
    return Ready("scaled to zero: no pod is required" if wanted == 0 else "")


def job(manifest: Manifest, context: Context) -> Verdict:  # noqa: ARG001
    """Complete is ready; a Failed Job fails immediately."""
    status = manifest.get("status") or {}
    if holds(manifest, "Failed"):
        return Failed(format_condition(condition(manifest, "Failed")) or "the Job failed")
    if not status.get("startTime"):
        return Waiting("the Job to start")
    if holds(manifest, "Complete"):
        return Ready()
    counts = ", ".join(f"{status.get(key, 0)} {key}" for key in ("active", "succeeded", "failed"))
    return Waiting(f"the Job to complete ({counts})")


def _revision(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("annotations") or {}).get(REVISION, ""))


def _phase(manifest: Manifest) -> str:
    return str((manifest.get("status") or {}).get("phase", ""))


def _is_false(manifest: Manifest, type_: str) -> bool:
    return condition(manifest, type_).get("status") == "False"
