"""The benchmark on the cluster: a headless Service over the servers, and the Job where `pulumi up` runs it.

The Job itself is plain data of workloads/benchmark/job.py, so that `fleet bench run` makes the very same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from workloads.server.server import Server

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkArgs:
    """Arguments of `Benchmark`."""

    server: Server
    """The run begins when it is ready. Clients use its image."""
    endpoint: pulumi.Input[str]
    """Where the clients send their requests, without a path: the `endpoint` of server, router or gateway."""
    results_bucket: pulumi.Input[str]
    """Name of the bucket for results; the account of the benchmark's pods may write to it."""
    measurement: Measurement | None
    """What `pulumi up` measures, once. None: only `fleet bench run` makes Jobs."""


class Benchmark(pulumi.ComponentResource):
    """Service and account of a benchmark, and with `runOnUpdate` one measurement per configuration.

    Changing anything that bears on the figures makes a new Job; nothing else does.
    """

    job: k8s.batch.v1.Job | None
    """None where only `fleet bench run` makes Jobs."""

    def __init__(self, name: str, args: BenchmarkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Benchmark", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        metadata: ObjectMetaArgsDict = {
            "name": server_pods_service(args.server.name),
            "namespace": args.server.namespace,
            "labels": names.own_labels(names.BENCHMARK_APP),
            # A paused fleet has no address, and the Job waits for servers itself.
            "annotations": {"pulumi.com/skipAwait": "true"},
        }
        k8s.core.v1.Service(
            f"{name}-server-pods",
            metadata=metadata,
            spec=names.server_pods_spec(args.server.name),
            opts=child,
        )
        account = names.service_account(f"{name}-account", names.BENCHMARK_ACCOUNT, args.server.namespace, child)
        self.job = None if args.measurement is None else self._job(name, args, args.measurement, account)
        self.register_outputs({"job": self.job.metadata.name if self.job is not None else None})

    def _job(
        self, name: str, args: BenchmarkArgs, measurement: Measurement, account: pulumi.Resource
    ) -> k8s.batch.v1.Job:
        named = job_name(measurement)
        config_map = config_map_manifest(
            measurement, name=named, namespace=args.server.namespace, labels=names.stack_labels()
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
            namespace=args.server.namespace,
            server=args.server.name,
            key_store=None if args.server.key is None else args.server.key.store,
            endpoint=args.endpoint,
            bucket=args.results_bucket,
            image=args.server.image,
            status_port=args.server.status_port,
            labels=names.stack_labels(),
        )
        # The next `pulumi up` repeats a failed run instead of reporting it forever.
        metadata: Any = {**job["metadata"], "annotations": {"pulumi.com/replaceUnready": "true"}}
        minutes = deadline_seconds(measurement) // 60
        return k8s.batch.v1.Job(
            f"{name}-job",
            metadata=metadata,
            spec=job["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[args.server, account, scripts],
                # Two runs at the same time would disturb each other.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m", delete="5m"),
            ),
        )
