"""Connections of one launch: cluster, bucket and managed Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.servers import ServerPod
from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.kubectl import Kubectl
from fleet.clients.prometheus import ManagedPrometheus, Servers
from fleet.clients.stopping import stopped_by_exception
from fleet.clients.storage import Bucket

if TYPE_CHECKING:
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Google:
    """Google Cloud services used without the cluster."""

    bucket: Bucket
    prometheus: ManagedPrometheus


def google_of(outputs: StackOutputs) -> Google:
    """Bucket and managed Prometheus of a stack, with the user's login. Needs the packages of requirements-benchmark.txt."""
    login = UserCredentials()
    return Google(bucket=Bucket(outputs.bucket, login), prometheus=ManagedPrometheus(outputs.project, login))


@contextlib.contextmanager
def cluster_of(
    outputs: StackOutputs, settings: Settings, kubeconfig: Path | None, context: str | None
) -> Iterator[Kubectl]:
    """The stack's cluster and namespace: by the stack's own kubeconfig, unless the user names a kubeconfig or context.

    Raises BenchmarkError where the stack's namespace is not there: another cluster.
    """
    with contextlib.ExitStack() as closing:
        # kubectl runs in separate process groups and must be ended here.
        closing.enter_context(stopped_by_exception())
        own = kubeconfig is None and context is None
        file = closing.enter_context(outputs.kubeconfig_file()) if own else kubeconfig
        kubectl = Kubectl(namespace=settings.namespace, kubeconfig=file, context=context)
        if kubectl.find("namespace", settings.namespace) is None:
            named = (
                f"context {context}"
                if context
                else f"--kubeconfig {kubeconfig}"
                if kubeconfig
                else "the stack's kubeconfig"
            )
            raise BenchmarkError(
                f"the cluster of {named} has no namespace {settings.namespace}: it is another cluster than that of stack "
                f"{settings.stack}, or the stack is not up. Omit --kubeconfig and --context to use the stack's own"
            )
        yield kubectl


def require_bucket(bucket: Bucket) -> None:
    """Check before the run that results can be read. Raises LiveError."""
    try:
        bucket.folders("runs/")
    except LiveError as error:
        raise LiveError(
            f"{error}. This machine could not download the results; pass --detach to run without access to the bucket",
            reason=error.reason,
        ) from None


def gpu_servers(settings: Settings, pods: Sequence[ServerPod] = ()) -> Servers:
    """Servers whose GPUs belong to the stack."""
    return Servers(
        namespace=settings.namespace,
        deployment=settings.server.name,
        pods=frozenset(pod.name for pod in pods),
        nodes=frozenset(pod.node for pod in pods if pod.node),
    )
