"""Google Cloud services of one launch: bucket and managed Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.bench.run.servers import ServerPod
from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.prometheus import ManagedPrometheus, Servers
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
    """Bucket and managed Prometheus of a stack, with the user's login. Needs the packages of the extra benchmark."""
    login = UserCredentials()
    return Google(bucket=Bucket(outputs.bucket, login), prometheus=ManagedPrometheus(outputs.project, login))


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
