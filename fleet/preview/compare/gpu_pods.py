"""The model servers of a recording: Deployments with GPU pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from facts.names import PAUSED_REPLICAS
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import Value, reveal
from workloads.server.pod_end import pod_end

_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
_GPU: Final = "nvidia.com/gpu"
_PLACEMENT: Final = "cloud.google.com/"
"""Prefix of the node labels that select capacity on GKE."""
_DEFAULT_UNAVAILABLE: Final = "25%"
"""Kubernetes' default for rolling updates. Source: Kubernetes API, apps/v1 RollingUpdateDeployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPods:
    """One Deployment of model servers."""

    urn: str
    name: str
    namespace: str
    replicas: int | None
    """None if managed externally."""
    most: int | None = None
    """Maximum of the stack's autoscaler."""
    gpus_per_replica: int
    gpus_per_node: int
    """GPUs of the machine: the pod's, unless it shares a machine."""
    capacity: str
    """Label of the capacity mode."""
    unavailable: int
    """Replicas that a rollout stops at a time; all of them without a rolling update."""
    stream_seconds: float
    """How long open streams go on when a replica ends as planned: at an update, a scale-in, a drained node."""

    @property
    def gpus(self) -> int:
        """GPUs of all counted replicas."""
        return self.gpus_per_replica * self.counted

    @property
    def nodes(self) -> int:
        """Machines of all replicas."""
        return ceil(self.gpus / self.gpus_per_node)

    @property
    def counted(self) -> int:
        """Replicas; the maximum if autoscaled, one if managed externally."""
        return (self.most or 1) if self.replicas is None else self.replicas


def gpu_pods(resources: Iterable[RecordedResource]) -> Iterator[GpuPods]:
    """Every Deployment whose pods request GPUs."""
    resources = tuple(resources)
    by_target = {scaler.target: scaler for scaler in scalers(resources)}
    for resource in resources:
        if resource.type != _DEPLOYMENT:
            continue
        spec = _map(reveal(resource.inputs.get("spec")))
        pod = _map(_map(spec.get("template")).get("spec"))
        gpus = sum(_gpus(container) for container in _maps(pod.get("containers")))
        if not gpus:
            continue
        metadata = _map(reveal(resource.inputs.get("metadata")))
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or resource.name)
        scaler = by_target.get((namespace, name))
        replicas, selector = _replicas(spec), _map(pod.get("nodeSelector"))
        if scaler is not None:  # a number beside it is a new Deployment's
            replicas = scaler.paused_at
        count = str(selector.get(f"{_PLACEMENT}gke-accelerator-count", ""))
        yield GpuPods(
            urn=resource.urn,
            name=name,
            namespace=namespace,
            replicas=replicas,
            most=None if scaler is None else scaler.most,
            gpus_per_replica=gpus,
            gpus_per_node=max(gpus, int(count) if count.isdigit() else 0),
            capacity=_capacity(selector),
            unavailable=_unavailable(_map(spec.get("strategy")), 1 if replicas is None else replicas),
            stream_seconds=pod_end(pod).stream_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """An autoscaler of a Deployment."""

    urn: str
    target: tuple[str, str]
    """Namespace and name of the Deployment."""
    fewest: int
    most: int | None
    paused_at: int | None = None
    """Replicas at which KEDA holds the Deployment, whatever the load; None if it scales."""


def scalers(resources: Iterable[RecordedResource]) -> Iterator[Scaler]:
    """Every ScaledObject and HorizontalPodAutoscaler."""
    for resource in resources:
        bounds = _BOUNDS.get(resource.type.rpartition(":")[2])
        if bounds is None or not resource.custom:
            continue
        spec = _map(reveal(resource.inputs.get("spec")))
        metadata = _map(reveal(resource.inputs.get("metadata")))
        fewest, most = (spec.get(bound) for bound in bounds)
        paused = str(_map(metadata.get("annotations")).get(PAUSED_REPLICAS, ""))
        yield Scaler(
            urn=resource.urn,
            target=(str(metadata.get("namespace") or "default"), str(_map(spec.get("scaleTargetRef")).get("name"))),
            fewest=fewest if isinstance(fewest, int) else 1,
            most=most if isinstance(most, int) else None,
            paused_at=int(paused) if paused.isdigit() else None,
        )


_BOUNDS: Final = {
    "ScaledObject": ("minReplicaCount", "maxReplicaCount"),
    "HorizontalPodAutoscaler": ("minReplicas", "maxReplicas"),
}


def reserves_first(resources: Iterable[RecordedResource]) -> bool:
    """Whether a ComputeClass has a reservation: it is billed whether a node runs or not."""
    return any(
        "reservations" in priority
        for resource in resources
        if resource.type.endswith(":ComputeClass")
        for priority in _maps(_map(reveal(resource.inputs.get("spec"))).get("priorities"))
    )


def _replicas(spec: Mapping[str, Any]) -> int | None:
    replicas = spec.get("replicas")
    return replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else None


def _gpus(container: Mapping[str, Any]) -> int:
    resources = _map(container.get("resources"))
    for kind in ("requests", "limits"):
        amount = str(_map(resources.get(kind)).get(_GPU, ""))
        if amount.isdigit():
            return int(amount)
    return 0


def _capacity(selector: Mapping[str, Any]) -> str:
    placed = {key.removeprefix(_PLACEMENT): str(value) for key, value in selector.items() if key.startswith(_PLACEMENT)}
    if name := placed.get("reservation-name"):
        return f"reservation {name}"
    if placed.get("gke-spot") == "true":
        return "Spot"
    if placed.get("gke-flex-start") == "true":
        return "flex-start"
    if class_ := placed.get("compute-class"):
        return f"compute class {class_}"
    return "on demand"


def _unavailable(strategy: Mapping[str, Any], replicas: int) -> int:
    if strategy.get("type") == "Recreate":
        return replicas
    rolling = _map(strategy.get("rollingUpdate"))
    down = _share(rolling.get("maxUnavailable", _DEFAULT_UNAVAILABLE), replicas)
    spare = str(rolling.get("maxSurge", _DEFAULT_UNAVAILABLE)) not in ("0", "0%")
    # With maxSurge and maxUnavailable both 0, Kubernetes stops one pod.
    return min(down, replicas) if down or spare else min(1, replicas)


def _share(given: Value, replicas: int) -> int:
    """A number or a percentage; Kubernetes rounds maxUnavailable down."""
    text = str(given)
    if text.endswith("%") and text[:-1].isdigit():
        return replicas * int(text[:-1]) // 100
    return int(text) if text.isdigit() else 1


def batches(replicas: int, at_a_time: int) -> int:
    """Rounds of a rollout with this many replicas at a time."""
    return ceil(replicas / at_a_time) if at_a_time else 0


def _map(value: Value) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Value) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []
