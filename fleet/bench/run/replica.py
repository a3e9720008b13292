"""One replica of the servers, or the canary, measured at its pod with one replica's load: what `fleet bench compare` judges a canary by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from facts.names import HTTP_PORT
from fleet.bench.errors import BenchmarkError
from fleet.bench.run.servers import ServerPod, server_pods
from settings.derived.measurement import measurement

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.derived.measurement import Measurement
    from settings.stack import Settings

Of = Literal["servers", "canary"]
_OF_THE_LOAD: Final = ("workload", "points", "repeats", "prompts_per_client", "slo")
"""Keys of run.json that must be equal for both: the servers' are used for the canary, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A ready pod, and how it is measured."""

    pod: ServerPod
    address: str
    """IP and port: no Service leads to one pod alone."""
    settings: Settings
    """The stack with this replica alone."""
    asked: Measurement


def settings_of(settings: Settings, of: Of) -> Settings:
    """The stack with one replica of the servers, or of the canary. Raises BenchmarkError without a canary, or with a port for each rank."""
    if settings.server.rank_ports:
        raise BenchmarkError(
            f"--replica {of}: with server.rankPorts one port is one rank of the replica; measure the whole stack"
        )
    try:
        return settings.one_replica(canary=of == "canary")
    except LookupError as error:
        raise BenchmarkError(f"--replica {of}: {error}; vllm-fleet:rollout declares one (docs/rollout.md)") from None


def replica(kubectl: Kubectl, settings: Settings, of: Of) -> Replica:
    """The first ready pod. Raises BenchmarkError without one."""
    one = settings_of(settings, of)
    pod = next((pod for pod in server_pods(kubectl, one) if pod.ready), None)
    manifest = kubectl.find("pod", pod.name) if pod else None
    if pod is None or manifest is None:
        look = f"kubectl --namespace {one.namespace} get pods --selector app={one.server.name}"
        raise BenchmarkError(f"no replica of {one.server.name} is ready: {look}")
    asked, load = measurement(one), measurement(settings_of(settings, "servers")).run
    same = {key: load[key] for key in _OF_THE_LOAD}
    address = f"{manifest['status']['podIP']}:{HTTP_PORT}"
    return Replica(pod=pod, address=address, settings=one, asked=replace(asked, run={**asked.run, **same}))
