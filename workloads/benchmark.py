"""The benchmark on the cluster: a headless Service over the servers, and the Job where `pulumi up` shall run it.

The Job itself is plain data of workloads/benchmark_job.py, so that `fleet bench run` makes the very same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from settings.settings import Settings
from workloads import names
from workloads.benchmark_job import asked as asked
from workloads.benchmark_job import config_map_manifest as config_map_manifest
from workloads.benchmark_job import deadline_seconds as deadline_seconds
from workloads.benchmark_job import fingerprint as fingerprint
from workloads.benchmark_job import job_manifest as job_manifest
from workloads.benchmark_job import job_name as job_name
from workloads.benchmark_job import server_pods_service as server_pods_service
from workloads.benchmark_job import server_pods_spec as server_pods_spec
from workloads.manifest import Manifest

if TYPE_CHECKING:
    from workloads.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkArgs:
    """Arguments of `Benchmark`."""

    settings: Settings
    namespace: pulumi.Input[str]
    image_prefix: pulumi.Input[str]
    endpoint: pulumi.Input[str]
    """Where the clients send their requests: the Service or the gateway."""
    results_bucket: pulumi.Input[str]
    server: Server
    """The run begins when it is ready."""


class Benchmark(pulumi.ComponentResource):
    """What a benchmark needs beside the servers, and one measurement per configuration where `runOnUpdate` asks for it.

    Changing anything that bears on the figures makes a new Job; nothing else does.
    """

    job: k8s.batch.v1.Job | None
    """None where only `fleet bench run` makes Jobs."""

    def __init__(self, name: str, args: BenchmarkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Benchmark", name, None, opts)
        settings = args.settings
        metadata: Manifest = {
            "name": server_pods_service(settings),
            "namespace": args.namespace,
            "labels": names.labels(settings, names.BENCHMARK_APP),
            # A paused fleet has no address, and nobody waits for this Service but a Job that waits for servers itself.
            "annotations": {"pulumi.com/skipAwait": "true"},
        }
        spec: Manifest = server_pods_spec(settings)
        k8s.core.v1.Service(
            f"{name}-server-pods",
            metadata=metadata,
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.job = self._job(name, args) if settings.benchmark.run_on_update else None
        self.register_outputs({"job": self.job.metadata.name if self.job is not None else None})

    def _job(self, name: str, args: BenchmarkArgs) -> k8s.batch.v1.Job:
        settings = args.settings
        named = job_name(settings)
        config_map = config_map_manifest(settings, name=named, namespace=args.namespace)
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts",
            metadata=config_map["metadata"],
            immutable=config_map["immutable"],
            data=config_map["data"],
            opts=pulumi.ResourceOptions(parent=self),
        )
        job = job_manifest(
            settings,
            name=named,
            namespace=args.namespace,
            endpoint=args.endpoint,
            bucket=args.results_bucket,
            image_prefix=args.image_prefix,
        )
        # A run that failed is repeated by the next `pulumi up` instead of being reported for ever.
        metadata: Manifest = {**job["metadata"], "annotations": {"pulumi.com/replaceUnready": "true"}}
        spec: Manifest = job["spec"]
        minutes = deadline_seconds(settings) // 60
        return k8s.batch.v1.Job(
            f"{name}-job",
            metadata=metadata,
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[args.server, scripts],
                # Two runs at once would measure each other.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m", delete="5m"),
            ),
        )
