"""The Job of one launch: made, named, and told how to stop or fetch it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.bench.errors import BenchmarkError
from fleet.clients.errors import LiveError

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl, Manifest
    from fleet.clients.stack_outputs import StackOutputs
    from settings.derived.measurement import Measurement
    from settings.stack import Settings

KEPT_SECONDS: Final = 24 * 3600
"""How long a launch's Job, pods and logs stay after its end. Unlike the program's own Job, nothing makes it again. Assumed: a day
is enough to look at logs."""
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_LAUNCH: Final = "vllm-fleet/launch"
"""Label of a launch's own: its Job is found by it where the name never came back, and nobody else's is taken for it."""
_NOT_MADE: Final = frozenset({"already exists", "forbidden", "credentials", "missing program"})
"""Answers after which no Job is there. After any other, e.g. none at all, it may be."""


@dataclass(frozen=True, slots=True)
class Launched:
    """One Job that was made."""

    job: str
    uid: str
    namespace: str
    stack: str
    fetch_options: str = ""
    """What `fleet bench fetch` must be told besides, with a space in front."""

    @property
    def measurement(self) -> str:
        """Name of the measurement, and of its folder in the bucket."""
        return f"{self.job}-{self.uid[:8]}"

    def how_to_stop(self) -> str:
        """The command that ends it, with its pods."""
        return f"kubectl --namespace {self.namespace} delete job {self.job}"

    def how_to_fetch(self) -> str:
        """The command that brings its results, when it has ended."""
        return f"fleet bench fetch {self.measurement} --stack {self.stack}{self.fetch_options}"


def require_prepared(kubectl: Kubectl, settings: Settings) -> None:
    """The account of the benchmark's pods is there, as `pulumi up` makes it. Raises BenchmarkError."""
    from workloads import names

    if kubectl.find("serviceaccount", names.BENCHMARK_ACCOUNT) is None:
        raise BenchmarkError(
            f"namespace {settings.namespace} has no service account {names.BENCHMARK_ACCOUNT}: benchmark.enabled is in the stack's "
            f"file, and the stack was not brought up since. Run `pulumi up --stack {settings.stack}` first"
        )


def require_no_other(kubectl: Kubectl, settings: Settings, *, but: str = "") -> None:
    """No other benchmark at work on these servers; `but` is the uid of one's own. Raises BenchmarkError with its name."""
    from workloads import names

    (label, value) = next(iter(names.selector(names.BENCHMARK_APP).items()))
    for job in kubectl.list_all("jobs", selector=f"{label}={value}"):
        if ended(job) is None and job["metadata"]["uid"] != but:
            name = job["metadata"]["name"]
            raise BenchmarkError(
                f"benchmark {name} is at work on this stack since {job['metadata']['creationTimestamp']}: two at once would measure "
                f"each other. Wait for it, or end it: kubectl --namespace {settings.namespace} delete job {name}"
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
    """Make the Job and its ConfigMap. Raises LiveError, and BenchmarkError where somebody else's came first; then neither is left
    behind, or the error says how to remove it.

    `asked`: instead of the settings' own measurement. `pod`: HOST:PORT of one server, which gets all of the load past every Service:
    network policies know pods by their labels, however they are addressed.
    """
    from settings.derived.measurement import measurement
    from workloads.benchmark.job import config_map_manifest, job_manifest

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
    )
    job["spec"]["ttlSecondsAfterFinished"] = KEPT_SECONDS
    config_map = config_map_manifest(asked, name=name, namespace=namespace, labels=labels)
    mark = secrets.token_hex(8)
    for manifest in (job, config_map):
        # Not in any Pulumi state: whoever looks at the cluster shall not look for it there.
        own = {_MANAGED_BY: "fleet", _LAUNCH: mark}
        manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], **own}
    made: Manifest | None = None
    try:
        made = kubectl.create(job)
        # Looked at once more, now that others see ours: of two who ask at the same moment, at most one goes on.
        require_no_other(kubectl, settings, but=made["metadata"]["uid"])
        # The Job first: it owns the ConfigMap, which goes when it does. Its pods wait for the ConfigMap in the meantime.
        config_map["metadata"]["ownerReferences"] = [_owner(made)]
        kubectl.create(config_map)
    except BaseException as error:
        if made is not None or not (isinstance(error, LiveError) and error.reason in _NOT_MADE):
            _withdraw(kubectl, f"{_LAUNCH}={mark}", error)
        raise
    return Launched(name, made["metadata"]["uid"], settings.namespace, settings.stack, fetch_options)


def _withdraw(kubectl: Kubectl, selector: str, why: BaseException) -> None:
    """Remove the Job, whether or not anybody knows that it was made. Raises LiveError where that fails."""
    try:
        kubectl.delete_all("jobs", selector=selector)
    except LiveError as error:
        trouble = f"{why}. " if isinstance(why, Exception) else ""
        raise LiveError(
            f"{trouble}The benchmark's Job may be in the cluster all the same, without what its pods need, and could not be removed: "
            f"{error}. Remove it before its machines cost money: kubectl --namespace {kubectl.namespace} delete jobs "
            f"--selector {selector}",
            reason=error.reason,
        ) from None


def ended(job: Mapping[str, Any]) -> str | None:
    """How a Job ended: `Complete`, or `Failed: why`; None while it goes on."""
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
        # As the controller's own: with blockOwnerDeletion a user needs leave to set finalizers.
        "blockOwnerDeletion": False,
    }
