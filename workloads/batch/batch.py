"""What a batch needs on the cluster between its runs: a service account, and a headless Service over the servers.

Job and ConfigMap of a run are plain data of workloads/batch/job.py, which `fleet batch run` applies; the client pods' network policies are
among the namespace's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from workloads import names
from workloads.batch.job import server_pods_service
from workloads.server.server import Server

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArgs:
    """Arguments of `Batch`."""

    server: Server
    """The servers whose queues the client pods read."""


class Batch(pulumi.ComponentResource):
    """The Service by which client pods find every server, and their service account. It runs nothing: `fleet batch run` makes the Job."""

    def __init__(self, name: str, args: BatchArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Batch", name, None, opts)
        metadata: ObjectMetaArgsDict = {
            "name": server_pods_service(args.server.name),
            "namespace": args.server.namespace,
            "labels": names.own_labels(names.BATCH_APP),
            # Between batches no server has an address.
            "annotations": {"pulumi.com/skipAwait": "true"},
        }
        names.service_account(
            f"{name}-account", names.BATCH_ACCOUNT, args.server.namespace, pulumi.ResourceOptions(parent=self)
        )
        k8s.core.v1.Service(
            f"{name}-server-pods",
            metadata=metadata,
            spec=names.server_pods_spec(args.server.name),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
