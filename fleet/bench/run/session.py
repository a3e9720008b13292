"""A stack as one launch needs it: cluster, bucket and managed Prometheus, opened together and closed on every way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.servers import ServerPod
from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from fleet.clients.stopping import stopped_by_exception

if TYPE_CHECKING:
    from fleet.clients.prometheus import ManagedPrometheus, Servers
    from fleet.clients.stack_outputs import StackOutputs
    from fleet.clients.storage import Bucket
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Google:
    """What of Google Cloud is reached without the cluster."""

    bucket: Bucket
    prometheus: ManagedPrometheus


def google_of(outputs: StackOutputs) -> Google:
    """Bucket and managed Prometheus of a stack, with the user's login. Needs the packages of requirements-benchmark.txt."""
    from fleet.clients.google_api import UserCredentials
    from fleet.clients.prometheus import ManagedPrometheus
    from fleet.clients.storage import Bucket

    login = UserCredentials()
    return Google(bucket=Bucket(outputs.bucket, login), prometheus=ManagedPrometheus(outputs.project, login))


@contextlib.contextmanager
def cluster_of(
    outputs: StackOutputs, settings: Settings, kubeconfig: Path | None, context: str | None
) -> Iterator[Kubectl]:
    """The stack's cluster and namespace: by the stack's own kubeconfig, unless the user names one or a context of their own.

    Raises BenchmarkError where the stack's namespace is not there: another cluster.
    """
    with contextlib.ExitStack() as closing:
        # kubectl runs in process groups of its own: nobody else would end it.
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
                f"the cluster of {named} has no namespace {settings.namespace}: it is not the cluster of stack {settings.stack}, or "
                "the stack is not up. Leave --kubeconfig and --context away to use the stack's own"
            )
        yield kubectl


def require_bucket(bucket: Bucket) -> None:
    """The results can be read before there are any: whoever may not learns it before paying. Raises LiveError."""
    try:
        bucket.folders("runs/")
    except LiveError as error:
        raise LiveError(
            f"{error}. The results would not reach this machine; with --detach the run needs no access to the bucket from here",
            reason=error.reason,
        ) from None


def gpu_servers(settings: Settings, pods: Sequence[ServerPod] = ()) -> Servers:
    """Whose GPUs are the stack's."""
    from fleet.clients.prometheus import Servers

    return Servers(
        namespace=settings.namespace,
        deployment=settings.server.name,
        pods=frozenset(pod.name for pod in pods),
        nodes=frozenset(pod.node for pod in pods if pod.node),
    )
