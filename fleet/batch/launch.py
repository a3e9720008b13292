"""A batch's Job in the stack's cluster: one at a time, named by its batch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from facts.user_error import UserError
from fleet.batch.stored import Where
from fleet.jobs.cluster_view import JOB_LABEL, stage_of
from fleet.jobs.job import create, ended
from settings.derived.batch_pods import batch_pods
from workloads import names
from workloads.batch.job import (
    BATCH_LABEL,
    CLIENT_IMAGE,
    GRACE_SECONDS,
    Work,
    config_map_manifest,
    job_manifest,
    job_name,
)

if TYPE_CHECKING:
    from fleet.batch.sizing import Sized
    from fleet.batch.stored import Batch, Run
    from fleet.clients.kubectl import Kubectl, Manifest
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings

POLL_SECONDS: Final = 3.0


def require_prepared(kubectl: Kubectl, settings: Settings) -> None:
    """The account of the pods exists. Raises UserError."""
    if kubectl.find("serviceaccount", names.BATCH_ACCOUNT) is None:
        raise UserError(
            f"namespace {settings.namespace} has no service account {names.BATCH_ACCOUNT}: the stack was not updated since batch.enabled "
            f"was set; run: pulumi up --stack {settings.stack}"
        )


def jobs(kubectl: Kubectl) -> dict[str, Manifest]:
    """Jobs of batches by the batch's id, ended ones included."""
    ((label, value),) = names.selector(names.BATCH_APP).items()
    return {batch_of(job): job for job in kubectl.list_all("jobs", selector=f"{label}={value}")}


def batch_of(job: Manifest) -> str:
    """Id of a Job's batch."""
    return str(job["metadata"].get("labels", {}).get(BATCH_LABEL, ""))


def own_job(kubectl: Kubectl, where: Where, batch: str) -> Manifest | None:
    """The batch's Job, running or ended. Raises UserError if another batch's runs on this stack."""
    found = jobs(kubectl)
    for id_, job in found.items():
        if id_ != batch and ended(job) is None:
            raise UserError(
                f"batch {id_} runs on stack {where.stack}, started {job['metadata']['creationTimestamp']}: two would share servers and "
                f"limits. Wait for it (fleet batch status {id_} {where} --watch), or stop it: fleet batch cancel {id_} {where}"
            )
    return found.get(batch)


def start(
    kubectl: Kubectl,
    settings: Settings,
    outputs: StackOutputs,
    batch: Batch,
    *,
    parts: tuple[int, ...],
    sized: Sized,
    run: Run,
) -> str:
    """Start the batch's Job over the shards without a part; returns its name. Raises LiveError and UserError; then no Job was made."""
    assert outputs.batch_bucket is not None
    namespace, labels = settings.namespace, settings.object_labels
    # The ConfigMap of an ended Job goes some time after it.
    programs = f"{job_name(batch.id)}-{secrets.token_hex(3)}"
    work = Work(
        batch=batch.id,
        shards=sorted(set(range(batch.shards)) - set(parts)),
        last=batch.shards - 1,
        url=batch.url,
        request_seconds=sized.request_seconds,
        until=run.until,
    )
    job = job_manifest(
        work,
        servers=run.servers,
        pods=batch_pods(settings),
        now=run.began,
        namespace=namespace,
        key_store=settings.api_key_store,
        endpoint=outputs.endpoint,
        bucket=outputs.batch_bucket,
        image=f"{outputs.image_prefix}/{CLIENT_IMAGE}",
        config_map=programs,
        labels=labels,
    )
    config_map = config_map_manifest(name=programs, batch=batch.id, namespace=namespace, labels=labels)
    where = Where(settings.stack)
    # Of this batch the API server refuses a second Job; of two batches that start together, none goes on.
    create(
        kubectl, job, config_map, whose="the batch's", require_no_other=lambda _: _require_alone(kubectl, where, batch)
    )
    return job_name(batch.id)


def _require_alone(kubectl: Kubectl, where: Where, batch: Batch) -> None:
    own_job(kubectl, where, batch.id)


def remove(kubectl: Kubectl, job: str, show: Callable[[int], None], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Delete a Job, and wait until its pods have stored what they have. `show` receives the pods that still run. Raises LiveError."""
    kubectl.delete("job", job)
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        working = sum(map(_works, kubectl.list_all("pods", selector=f"{JOB_LABEL}={job}")))
        if not working and kubectl.find("job", job) is None:
            return
        show(working)
        time.sleep(poll_seconds)


def _works(pod: dict[str, Any]) -> bool:
    return stage_of(pod) in ("preparing", "running")
