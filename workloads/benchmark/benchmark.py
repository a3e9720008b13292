"""The benchmark on the cluster: a headless Service over the servers, and the Job where `pulumi up` runs it.

The Job itself is plain data of workloads/benchmark/job.py, so that `fleet bench run` makes the very same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from settings.derived.measurement import Measurement
from workloads import names
from workloads.benchmark.job import (
    config_map_manifest,
    deadline_seconds,
    job_manifest,
    job_name,
    server_pods_service,
)
from workloads.manifest import Manifest
from workloads.server.server import Server
from workloads.space import Space

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkArgs:
    """Arguments of `Benchmark`."""

    space: Space
    """Namespace of the servers and of the service account `benchmark`; labels."""
    server: Server
    """The run begins when it is ready. Clients use its image."""
    endpoint: pulumi.Input[str]
    """Where the clients send their requests, without a path: `Server.endpoint` or `Gateway.endpoint`."""
    results_bucket: pulumi.Input[str]
    """Name of the bucket for results; the account of the benchmark's pods may write to it."""
    measurement: Measurement
    """The measurement to run."""
    run_on_update: bool = True
    """Whether `pulumi up` runs it, once per measurement. False: only `fleet bench run` makes Jobs."""


class Benchmark(pulumi.ComponentResource):
    """Objects of a benchmark beside the servers, and with `runOnUpdate` one measurement per configuration.

    Changing anything that bears on the figures makes a new Job; nothing else does.
    """

    job: k8s.batch.v1.Job | None
    """None where only `fleet bench run` makes Jobs."""

    def __init__(self, name: str, args: BenchmarkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Benchmark", name, None, opts)
        metadata: ObjectMetaArgsDict = {
            "name": server_pods_service(args.server.name),
            "namespace": args.space.namespace,
            "labels": names.labels(args.space.labels, names.BENCHMARK_APP),
            # A paused fleet has no address, and the Job waits for servers itself.
            "annotations": {"pulumi.com/skipAwait": "true"},
        }
        k8s.core.v1.Service(
            f"{name}-server-pods",
            metadata=metadata,
            spec=names.server_pods_spec(args.server.name),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.job = self._job(name, args) if args.run_on_update else None
        self.register_outputs({"job": self.job.metadata.name if self.job is not None else None})

    def _job(self, name: str, args: BenchmarkArgs) -> k8s.batch.v1.Job:
        measurement = args.measurement
        named = job_name(measurement)
        config_map = config_map_manifest(
            measurement, name=named, namespace=args.space.namespace, labels=args.space.labels
        )
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts",
            metadata=config_map["metadata"],
            immutable=config_map["immutable"],
            data=config_map["data"],
            opts=pulumi.ResourceOptions(parent=self),
        )
        job = job_manifest(
            measurement,
            name=named,
            namespace=args.space.namespace,
            server=args.server.name,
            key_store=args.server.key_store,
            endpoint=args.endpoint,
            bucket=args.results_bucket,
            image=args.server.image,
            status_port=args.server.status_port,
            labels=args.space.labels,
        )
        # The next `pulumi up` repeats a failed run instead of reporting it forever.
        metadata: Manifest = {**job["metadata"], "annotations": {"pulumi.com/replaceUnready": "true"}}
        spec: Manifest = job["spec"]
        minutes = deadline_seconds(measurement) // 60
        return k8s.batch.v1.Job(
            f"{name}-job",
            metadata=metadata,
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[args.server, scripts],
                # Two runs at the same time would disturb each other.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m", delete="5m"),
            ),
        )
