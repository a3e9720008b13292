"""Replica restarts caused by a change: how many, how many at a time, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.preview.compare.changes import ResourceChange
from fleet.preview.compare.gpu_pods import GpuPods, batches
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import Value, reveal

MINUTES_TO_LOAD: Final = 10
"""From pod start to first response. Source: the article, model loading and CUDA graphs on one A4 node."""
MINUTES_TO_PROVISION: Final = 6
"""Additional time for a new A4 node. Source: the article, 5 to 6 minutes on Autopilot with capacity."""

CLUSTER: Final = "gcp:container/cluster:Cluster"
NAMESPACE: Final = "kubernetes:core/v1:Namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Restart of one Deployment's replicas."""

    name: str
    replicas: int
    gpus: int
    at_a_time: int
    """Replicas down at a time; 0 if each stops after its successor is ready."""
    minutes: float
    """Minutes until all are ready again."""
    new_nodes: bool
    """Whether they need new nodes."""
    maybe: bool
    """Whether this depends on an unknown value."""

    @property
    def at_once(self) -> bool:
        """Whether all stop together."""
        return self.at_a_time >= self.replicas


def restart_of(
    was: GpuPods, now: GpuPods, fate: ResourceChange, gone: Sequence[ResourceChange], old: Sequence[RecordedResource]
) -> Restart | None:
    """Restart of one Deployment's replicas; None if they keep running."""
    template = [property_ for property_ in fate.properties if property_.path.startswith("spec.template")]
    pulled = _ground_pulled(was, gone, old)
    if fate.operation != "replace" and not template and pulled is None:
        return None
    running = min(was.counted, now.counted)
    if not running:
        return None
    whole = fate.operation == "replace" or pulled is not None
    # A rollout uses the new object's strategy; a deleted Deployment stops all its pods.
    at_a_time = running if whole else min(now.unavailable, running)
    new_nodes = was.capacity != now.capacity or (pulled is not None and pulled.type == CLUSTER)
    minutes = MINUTES_TO_LOAD + (MINUTES_TO_PROVISION if new_nodes else 0)
    sure = (pulled is not None and not pulled.maybe) or (fate.operation == "replace" and not fate.maybe)
    sure = sure or any(one.kind != "may change" for one in template)
    return Restart(
        name=now.name,
        replicas=running,
        gpus=running * was.gpus_per_replica,
        at_a_time=at_a_time,
        minutes=batches(running, at_a_time) * minutes,
        new_nodes=new_nodes,
        maybe=not sure,
    )


def _ground_pulled(
    was: GpuPods, gone: Sequence[ResourceChange], old: Sequence[RecordedResource]
) -> ResourceChange | None:
    """The deleted cluster or namespace that contains the pods, if any."""
    names = {one.urn: _metadata_name(one) for one in old if one.type == NAMESPACE}
    for one in gone:
        if one.retained:
            continue
        if one.type == CLUSTER or (one.type == NAMESPACE and names.get(one.old_urn) == was.namespace):
            return one
    return None


def _metadata_name(one: RecordedResource) -> str:
    metadata: Value = reveal(one.inputs.get("metadata"))
    name: Any = metadata.get("name") if isinstance(metadata, Mapping) else None
    return str(name or one.name)
