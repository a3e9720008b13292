"""Autoscalers of GPU servers: KEDA's ScaledObjects and HorizontalPodAutoscalers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import money
from facts.finding import Finding
from facts.names import PAUSED_REPLICAS
from objects import by_key, namespace_of, number, of_kind
from pods import Pod, all_servers, pods
from rule import Resource, dig, finding, listed, mapped
from tokens import KEDA

POD_COUNT: Final = "kubernetes-workload"
"""Trigger that counts pods. An error is no count: KEDA then changes nothing. Source: keda 2.20.2, kubernetes_workload_scaler.go."""
UNMEASURED: Final = ("cron", POD_COUNT)
"""Triggers without a metric."""
KEDA_MOST: Final = 100
"""Source: keda 2.20.2, defaultHPAMaxReplicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """An autoscaler and the GPU servers that it scales."""

    resource: Resource
    deployment: Resource
    pod: Pod

    @property
    def is_keda(self) -> bool:
        """Whether it is a ScaledObject."""
        return self.resource.kind == "ScaledObject"

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapped(dig(self.resource.props, "spec"))

    @property
    def triggers(self) -> tuple[Any, ...]:
        """KEDA's triggers."""
        return tuple(listed(dig(self.spec, "triggers")))

    @property
    def metrics(self) -> tuple[Any, ...]:
        """KEDA's triggers that measure."""
        return tuple(one for one in self.triggers if dig(one, "type") not in UNMEASURED)

    @property
    def counts_pods(self) -> bool:
        """Whether pods of others, such as a batch's, are among what decides."""
        return any(dig(one, "type") == POD_COUNT for one in self.triggers)

    @property
    def serves_pods_only(self) -> bool:
        """Whether pods of others alone decide: each asks for a server until it ends."""
        return {dig(one, "type") for one in self.triggers} == {POD_COUNT}

    @property
    def most(self) -> float | None:
        """Maximum replicas; KEDA's default where missing."""
        written = number(dig(self.spec, "maxReplicaCount" if self.is_keda else "maxReplicas"))
        return KEDA_MOST if written is None and self.is_keda else written

    @property
    def reachable(self) -> float | None:
        """Replicas that it may request: the number that it is paused at, else its maximum."""
        paused = str(dig(self.resource.props, "metadata", "annotations", PAUSED_REPLICAS) or "")
        return int(paused) if self.is_keda and paused.isdigit() else self.most

    @property
    def least(self) -> float | None:
        """Minimum replicas."""
        return number(dig(self.spec, "minReplicaCount" if self.is_keda else "minReplicas"))

    def found(self, what: str, fix: str = "", *, urn: str = "") -> Finding:
        """A finding about it, with the cost of its servers."""
        return finding(what, write=fix, urn=urn or self.resource.urn, at_stake=money.at_stake(self.deployment))


def scalers(resources: Sequence[Resource]) -> Iterator[Scaler]:
    """Every autoscaler of a Deployment with GPUs."""
    deployments = by_key(resources, "Deployment")
    for resource in (*of_kind(resources, "ScaledObject", KEDA), *of_kind(resources, "HorizontalPodAutoscaler")):
        target = str(dig(resource.props, "spec", "scaleTargetRef", "name"))
        if (deployment := deployments.get((namespace_of(resource), target))) is not None:
            for pod in pods(deployment):
                if pod.gpus:
                    yield Scaler(resource=resource, deployment=deployment, pod=pod)


def serves_pods_only(resources: Sequence[Resource]) -> bool:
    """Whether all servers run for other pods only, such as a batch's, so that no user waits for them."""
    servers = {server.pod.resource.urn for server in all_servers(resources)}
    return bool(servers) and servers <= {one.deployment.urn for one in scalers(resources) if one.serves_pods_only}


def most_replicas(resources: Sequence[Resource]) -> dict[str, int]:
    """Maximum replicas of each scaled Deployment by URN."""
    return {scaler.deployment.urn: int(scaler.most) for scaler in scalers(resources) if scaler.most is not None}


def least_replicas(resources: Sequence[Resource]) -> dict[str, int]:
    """Minimum replicas of each scaled Deployment by URN."""
    return {scaler.deployment.urn: int(scaler.least) for scaler in scalers(resources) if scaler.least is not None}
