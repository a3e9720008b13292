"""The benchmark on the cluster: a headless Service over the servers, and the Job where `pulumi up` shall run it.

The Job itself is plain data of workloads/benchmark/job.py, so that `fleet bench run` makes the very same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from workloads import names
from workloads.benchmark.job import (
    config_map_manifest,
    deadline_seconds,
    job_manifest,
    job_name,
    server_pods_service,
    server_pods_spec,
)
from workloads.manifest import Manifest
from workloads.space import Space

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

    from settings.derived.measurement import Measurement
    from workloads.server.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkArgs:
    """Arguments of `Benchmark`."""

    space: Space
    """Namespace of the servers, with the service account `benchmark` in it; labels."""
    server: Server
    """The run begins when it is ready. Its image is the clients', too."""
    endpoint: pulumi.Input[str]
    """Where the clients send their requests, without a path: `Server.endpoint` or `Gateway.endpoint`."""
    results_bucket: pulumi.Input[str]
    """Name of the bucket for results; the account of the benchmark's pods may write to it."""
    measurement: Measurement
    """What the pods are asked to do."""
    run_on_update: bool = True
    """Whether `pulumi up` runs it, once per measurement. False: only `fleet bench run` makes Jobs."""


class Benchmark(pulumi.ComponentResource):
    """What a benchmark needs beside the servers, and one measurement per configuration where `runOnUpdate` asks for it.

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
            # A paused fleet has no address, and nobody waits for this Service but a Job that waits for servers itself.
            "annotations": {"pulumi.com/skipAwait": "true"},
        }
        k8s.core.v1.Service(
            f"{name}-server-pods",
            metadata=metadata,
            spec=server_pods_spec(args.server.name),
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
            labels=args.space.labels,
        )
        # A run that failed is repeated by the next `pulumi up` instead of being reported for ever.
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
                # Two runs at once would measure each other.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m", delete="5m"),
            ),
        )
