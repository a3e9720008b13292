"""Create a benchmark's Job; commands to stop and fetch it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.bench.errors import BenchmarkError
from fleet.jobs.job import create, ended
from workloads import names
from workloads.benchmark.job import config_map_manifest, job_manifest

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.stack_outputs import StackOutputs
    from settings.derived.measurement import Measurement
    from settings.stack import Settings


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
    config_map = config_map_manifest(asked, name=name, namespace=namespace, labels=labels)
    made = create(
        kubectl,
        job,
        config_map,
        whose="the benchmark's",
        require_no_other=lambda uid: require_no_other(kubectl, settings, but=uid),
    )
    return Launched(name, made["metadata"]["uid"], settings.namespace, settings.stack, fetch_options)
