"""Create the Job of one launch; commands to stop and fetch it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.bench.errors import BenchmarkError
from fleet.clients.errors import LiveError
from workloads import names
from workloads.benchmark.job import config_map_manifest, job_manifest

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl, Manifest
    from fleet.clients.stack_outputs import StackOutputs
    from settings.derived.measurement import Measurement
    from settings.stack import Settings

KEPT_SECONDS: Final = 24 * 3600
"""How long a launch's Job, pods and logs stay after its end. Assumed: a day is enough to read logs."""
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_LAUNCH: Final = "vllm-fleet/launch"
"""Label of one launch, which finds its Job where the API server's answer was lost."""
_NOT_MADE: Final = frozenset({"already exists", "forbidden", "credentials", "missing program"})
"""Errors after which no Job exists. After any other it may."""


@dataclass(frozen=True, slots=True)
class Launched:
    """One created Job."""

    job: str
    uid: str
    namespace: str
    stack: str
    fetch_options: str = ""
    """Further options of `fleet bench fetch`, with a leading space."""

    @property
    def measurement(self) -> str:
        """Name of the measurement, and of its folder in the bucket."""
        return f"{self.job}-{self.uid[:8]}"

    def how_to_stop(self) -> str:
        """The command that ends it, with its pods."""
        return f"kubectl --namespace {self.namespace} delete job {self.job}"

    def how_to_fetch(self) -> str:
        """The command that downloads its results, when it has ended."""
        return f"fleet bench fetch {self.measurement} --stack {self.stack}{self.fetch_options}"


def require_prepared(kubectl: Kubectl, settings: Settings) -> None:
    """The account of the benchmark's pods exists. Raises BenchmarkError."""
    if kubectl.find("serviceaccount", names.BENCHMARK_ACCOUNT) is None:
        raise BenchmarkError(
            f"namespace {settings.namespace} has no service account {names.BENCHMARK_ACCOUNT}: the stack was not updated since "
            f"benchmark.enabled was set; run: pulumi up --stack {settings.stack}"
        )


def require_no_other(kubectl: Kubectl, settings: Settings, *, but: str = "") -> None:
    """No other benchmark runs on these servers; `but` is the uid of this one. Raises BenchmarkError with its name."""
    (label, value) = next(iter(names.selector(names.BENCHMARK_APP).items()))
    for job in kubectl.list_all("jobs", selector=f"{label}={value}"):
        if ended(job) is None and job["metadata"]["uid"] != but:
            name = job["metadata"]["name"]
            raise BenchmarkError(
                f"benchmark {name} is running on this stack, started {job['metadata']['creationTimestamp']}; two would disturb "
                f"each other. Wait for it, or stop it: kubectl --namespace {settings.namespace} delete job {name}"
            )


def launch(
    kubectl: Kubectl,
    settings: Settings,
    outputs: StackOutputs,
    *,
    fetch_options: str = "",
    asked: Measurement | None = None,
    pod: str | None = None,
) -> Launched:
    """Create the Job and its ConfigMap. Raises LiveError, and BenchmarkError where another benchmark came first; then neither is left
    behind, or the error has the command to remove it.

    `asked`: instead of the settings' own measurement. `pod`: HOST:PORT of one server, which gets all of the load without a Service:
    network policies select pods by label, however they are addressed.
    """
    from settings.derived.measurement import measurement

    name = f"benchmark-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    asked, namespace, labels = asked or measurement(settings), settings.namespace, settings.object_labels
    job = job_manifest(
        asked,
        name=name,
        namespace=namespace,
        server=settings.server.name,
        key_store=settings.api_key_store,
        endpoint=outputs.endpoint if pod is None else f"http://{pod}",
        bucket=outputs.bucket,
        image=f"{outputs.image_prefix}/{settings.serving.image.reference}",
        labels=labels,
        server_pods=pod,
        status_port=settings.status_port,
    )
    job["spec"]["ttlSecondsAfterFinished"] = KEPT_SECONDS
    config_map = config_map_manifest(asked, name=name, namespace=namespace, labels=labels)
    mark = secrets.token_hex(8)
    for manifest in (job, config_map):
        # It is in no Pulumi state: the labels say who created it.
        own = {_MANAGED_BY: "fleet", _LAUNCH: mark}
        manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], **own}
    made: Manifest | None = None
    try:
        made = kubectl.create(job)
        # Checked again, now that others see this Job: of two started together at most one continues.
        require_no_other(kubectl, settings, but=made["metadata"]["uid"])
        # The Job first: it owns the ConfigMap, which is deleted with it. Its pods wait for the ConfigMap.
        config_map["metadata"]["ownerReferences"] = [_owner(made)]
        kubectl.create(config_map)
    except BaseException as error:
        if made is not None or not (isinstance(error, LiveError) and error.reason in _NOT_MADE):
            _withdraw(kubectl, f"{_LAUNCH}={mark}", error)
        raise
    return Launched(name, made["metadata"]["uid"], settings.namespace, settings.stack, fetch_options)


def _withdraw(kubectl: Kubectl, selector: str, why: BaseException) -> None:
    """Remove the Job, also where its creation is uncertain. Raises LiveError where that fails."""
    try:
        kubectl.delete_all("jobs", selector=selector)
    except LiveError as error:
        trouble = f"{why}. " if isinstance(why, Exception) else ""
        raise LiveError(
            f"{trouble}The benchmark's Job may exist in the cluster and could not be removed: "
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
