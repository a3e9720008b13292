"""A batch's Job in the stack's cluster: start it, change its size, stop it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from facts.user_error import UserError
from fleet.batch.stored import Where
from fleet.jobs.cluster_view import JOB_LABEL, stage_of
from fleet.jobs.job import create, ended
from workloads import names
from workloads.batch.job import BATCH_LABEL, CLIENT_IMAGE, config_map_manifest, job_manifest, job_name

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl, Manifest
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings

STOP_SECONDS: Final = 180.0
"""For running clients to stop by themselves. Source: workloads/batch/pods/times.py, they look for it every 15 s and wait a minute for
requests in flight; the rest is for storing."""
POLL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Started:
    """The Job of a batch."""

    job: str
    done: Literal["started", "resized", "unchanged"]


def require_prepared(kubectl: Kubectl, settings: Settings) -> None:
    """The account of the clients exists. Raises UserError."""
    if kubectl.find("serviceaccount", names.BATCH_ACCOUNT) is None:
        raise UserError(
            f"namespace {settings.namespace} has no service account {names.BATCH_ACCOUNT}: the stack was not updated since batch.enabled "
            f"was set; run: pulumi up --stack {settings.stack}"
        )


def active(kubectl: Kubectl) -> list[Manifest]:
    """Jobs of batches that have not ended."""
    ((label, value),) = names.selector(names.BATCH_APP).items()
    return [job for job in kubectl.list_all("jobs", selector=f"{label}={value}") if ended(job) is None]


def batch_of(job: Manifest) -> str:
    """Id of a Job's batch."""
    return str(job["metadata"].get("labels", {}).get(BATCH_LABEL, ""))


def own_job(kubectl: Kubectl, where: Where, batch: str, *, but: str = "") -> Manifest | None:
    """The batch's Job that has not ended. Raises UserError if another batch's runs on this stack. `but`: uid of a Job to leave out."""
    found = [job for job in active(kubectl) if job["metadata"]["uid"] != but]
    other = next((job for job in found if batch_of(job) != batch), None)
    if other is not None:
        id_ = batch_of(other)
        raise UserError(
            f"batch {id_} runs on stack {where.stack}, started {other['metadata']['creationTimestamp']}: two would share servers "
            f"and limits. Wait for it (fleet batch status {id_} {where} --watch), or stop it: fleet batch cancel {id_} {where}"
        )
    return next(iter(found), None)


def start(kubectl: Kubectl, settings: Settings, outputs: StackOutputs, batch: str, servers: int) -> Started:
    """Start the batch's Job, or give the one that runs this number of servers. Raises LiveError and UserError; then no Job was made."""
    where = Where(settings.stack)
    running = own_job(kubectl, where, batch)
    if running is not None:
        return _resized(kubectl, running, servers)
    # Each launch has its own name: the ConfigMap of an ended Job goes some time after the Job.
    name = f"{job_name(batch)}-{secrets.token_hex(3)}"
    namespace, labels = settings.namespace, settings.object_labels
    assert outputs.batch_bucket is not None
    job = job_manifest(
        name=name,
        batch=batch,
        servers=servers,
        namespace=namespace,
        server=settings.server.name,
        key_store=settings.api_key_store,
        endpoint=outputs.endpoint,
        bucket=outputs.batch_bucket,
        image=f"{outputs.image_prefix}/{CLIENT_IMAGE}",
        labels=labels,
        status_port=settings.status_port,
    )
    config_map = config_map_manifest(name=name, batch=batch, namespace=namespace, labels=labels)

    def require_no_other(uid: str) -> None:
        if (other := own_job(kubectl, where, batch, but=uid)) is not None:
            raise UserError(
                f"another command started batch {batch} at the same moment, as {other['metadata']['name']}; run again to see whether it "
                "goes on"
            )

    create(kubectl, job, config_map, whose="the batch's", require_no_other=require_no_other)
    return Started(name, "started")


def _resized(kubectl: Kubectl, job: Manifest, servers: int) -> Started:
    name = job["metadata"]["name"]
    if job["spec"]["parallelism"] == servers:
        return Started(name, "unchanged")
    # Of an indexed Job both change together, or neither. Source: Kubernetes docs, Elastic Indexed Jobs.
    patch = {"spec": {"completions": servers, "parallelism": servers}}
    kubectl.patch("job", name, patch)
    return Started(name, "resized")


def wait_until_stopped(
    kubectl: Kubectl,
    job: str,
    show: Callable[[int], None],
    *,
    seconds: float = STOP_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Wait until no client of a stopped batch works: the Job has ended, or its pods never began. `show` receives the clients that still
    run. Raises LiveError.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = kubectl.find("job", job)
        if found is None or ended(found) is not None:
            return
        working = sum(map(_works, kubectl.list_all("pods", selector=f"{JOB_LABEL}={job}")))
        if not working:
            return
        show(working)
        time.sleep(poll_seconds)


def _works(pod: dict[str, Any]) -> bool:
    return stage_of(pod) in ("preparing", "running")
