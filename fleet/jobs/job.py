"""A Job and its ConfigMap: both are created, or neither; and how a Job ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fleet.clients.errors import LiveError

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl, Manifest

KEPT_SECONDS: Final = 24 * 3600
"""How long a Job, its pods and their logs stay after its end. Assumed: a day is enough to read logs."""
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_LAUNCH: Final = "vllm-fleet/launch"
"""Label of one launch, which finds its Job where the API server's answer was lost."""
_NOT_MADE: Final = frozenset({"already exists", "forbidden", "credentials", "missing program"})
"""Errors after which no Job exists. After any other it may."""


def create(
    kubectl: Kubectl, job: Manifest, config_map: Manifest, *, whose: str, require_no_other: Callable[[str], None]
) -> Manifest:
    """Create the Job and its ConfigMap, and return the Job. Raises LiveError, and what `require_no_other` raises, which gets the Job's
    uid; then neither is left behind, or the error has the command to remove it. `whose`: e.g. "the benchmark's".
    """
    job["spec"]["ttlSecondsAfterFinished"] = KEPT_SECONDS
    mark = secrets.token_hex(8)
    for manifest in (job, config_map):
        # It is in no Pulumi state: the labels say who created it.
        own = {_MANAGED_BY: "fleet", _LAUNCH: mark}
        manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], **own}
    made: Manifest | None = None
    try:
        made = kubectl.create(job)
        # Checked again, now that others see this Job: of two started together at most one continues.
        require_no_other(made["metadata"]["uid"])
        # The Job first: it owns the ConfigMap, which is deleted with it. Its pods wait for the ConfigMap.
        config_map["metadata"]["ownerReferences"] = [_owner(made)]
        kubectl.create(config_map)
    except BaseException as error:
        if made is not None or not (isinstance(error, LiveError) and error.reason in _NOT_MADE):
            _withdraw(kubectl, f"{_LAUNCH}={mark}", whose, error)
        raise
    return made


def _withdraw(kubectl: Kubectl, selector: str, whose: str, why: BaseException) -> None:
    """Remove the Job, also where its creation is uncertain. Raises LiveError where that fails."""
    try:
        kubectl.delete_all("jobs", selector=selector)
    except LiveError as error:
        trouble = f"{why}. " if isinstance(why, Exception) else ""
        raise LiveError(
            f"{trouble}{whose[:1].upper()}{whose[1:]} Job may exist in the cluster and could not be removed: "
            f"{error}. Remove it before its machines cost money; run: kubectl --namespace {kubectl.namespace} delete jobs "
            f"--selector {selector}",
            reason=error.reason,
        ) from None


def ended(job: Mapping[str, Any]) -> str | None:
    """How a Job ended: `Complete`, or `Failed: why`; None while it runs."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
            if condition["type"] == "Complete":
                return "Complete"
            why = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return f"Failed: {why}"
    return None


def _owner(job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        # Without blockOwnerDeletion, which needs permission to set finalizers.
        "blockOwnerDeletion": False,
    }
