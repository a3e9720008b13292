"""Dangers of a change: data loss, downtime, irrevocable cost, lost protection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from facts.names import CANARY_ENDING
from facts.texts import plural
from fleet.preview.compare.changes import Changes, Danger, ResourceChange, counterpart
from fleet.preview.compare.gpu_pods import GpuPods
from fleet.preview.compare.restarts import CLUSTER, NAMESPACE, Restart

VOLUMES: Final = (
    "gcp:compute/disk:Disk",
    "kubernetes:core/v1:PersistentVolume",
    "kubernetes:core/v1:PersistentVolumeClaim",
)
ENDS: Final = ("replace", "delete")
"""Operations that remove the old resource."""
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": ("spec.addresses", "spec.gatewayClassName"),
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": ("spec.hostnames", "spec.parentRefs"),
}
"""Properties of a gateway that decide under which address, name and port its clients reach it."""
_LOSSES: Final[Mapping[str, tuple[str, str, str]]] = {
    CLUSTER: ("cluster", "Cluster", "all its workloads and volumes are lost"),
    NAMESPACE: ("namespace", "Namespace", "Kubernetes deletes all its objects"),
    "gcp:storage/bucket:Bucket": ("bucket", "Bucket", "its results are lost, or block the deletion"),
    **dict.fromkeys(VOLUMES, ("weights", "Volume", "the weights on it are lost")),
}
"""Of a resource that goes: the danger's kind, its noun, and what is lost."""
_DELETED_FIRST: Final = "its weights are deleted first, and no pod starts until they are written again"


def dangers(
    changes: Changes,
    restarts: Sequence[Restart],
    before: Mapping[str, GpuPods],
    after: Mapping[str, GpuPods],
    fates: Mapping[str, ResourceChange],
) -> Iterator[Danger]:
    """Every danger of the changes, most serious first."""
    for resource in changes.resources:
        if resource.operation in ENDS and resource.custom:
            yield from _ending(resource, successor(resource, changes.resources))
    for restart in restarts:
        if restart.at_once and restart.replicas > 1:
            yield Danger(
                id="all-replicas-at-once",
                message=f"All {restart.replicas} replicas of {restart.name} {'may go' if restart.maybe else 'go'} down "
                "together: no service until the first is ready.",
                urns=tuple(urn for urn, pods in after.items() if pods.name == restart.name),
            )
    for urn, now in after.items():
        was = before.get(fates[urn].old_urn)
        if was is not None and was.capacity != now.capacity:
            yield Danger(
                id="capacity-changed",
                message=f"{now.name} moves from {was.capacity} to {now.capacity}: new nodes, a different price, and no "
                "capacity reserved for the move.",
                urns=(urn,),
            )
    names = {pods.name for pods in before.values()}
    kept = {fate.old_urn for fate in fates.values()}
    for urn, was in before.items():
        # A canary serves no users; its name derives from the servers'.
        canary = was.name.endswith(CANARY_ENDING) and was.name.removesuffix(CANARY_ENDING) in names
        if urn not in kept and was.counted and not canary:
            yield Danger(
                id="server-deleted",
                message=f"{was.name} is deleted: {plural(was.counted, 'replica')} with {plural(was.gpus, 'GPU')} stop serving.",
                urns=(urn,),
            )
    yield from _moved(changes)
    yield from _unprotected(changes)


def successor(one: ResourceChange, resources: Sequence[ResourceChange]) -> ResourceChange | None:
    """The new volume of the component whose volume is deleted: another release of the weights is another resource."""
    return counterpart(one, resources) if one.type in VOLUMES and one.operation == "delete" else None


def _ending(one: ResourceChange, new: ResourceChange | None) -> Iterator[Danger]:
    """A resource that is deleted or replaced, by `new` if that has another name."""
    verb = "may be replaced" if one.maybe else f"is {one.operation}d"
    if one.protected:
        yield Danger(
            id="protected",
            message=f"{one.name} {verb}, but it is protected: `pulumi up` refuses until the protection is removed.",
            urns=(one.urn,),
        )
    if one.retained:
        return
    causes = [f"of {reason.path}" if reason.path else reason.source for reason in one.reasons]
    because = f", because {' and '.join(causes)}" if causes else ""
    guess = " (a guess)" if one.guessed else ""
    if new is not None:
        yield Danger(
            id="weights-replaced",
            message=f"Volume {one.name} is deleted when no replica mounts it; a new one is written first.",
            urns=(one.urn, new.urn),
        )
    elif one.type in _LOSSES:
        kind, noun, loss = _LOSSES[one.type]
        if kind == "weights" and one.operation == "replace":
            loss = _DELETED_FIRST if one.delete_first else "a new one is written first, then the old one is deleted"
        yield Danger(
            id=f"{kind}-{one.operation}d",
            message=f"{noun} {one.name} {verb}{guess}{because}: {loss}.",
            urns=(one.urn,),
        )


def _moved(changes: Changes) -> Iterator[Danger]:
    """A gateway that clients no longer reach as they do now."""
    moved = [
        one.urn
        for one in changes.resources
        if one.type in _CALLED
        and (one.operation in ENDS or any(change.path.startswith(_CALLED[one.type]) for change in one.properties))
    ]
    if moved:
        yield Danger(
            id="endpoint-moved",
            message="The gateway's address, name or port changes: clients that call it as they do now get errors as soon as the "
            "update reaches the load balancer; docs/gateway.md (a name for a gateway that serves) has the order.",
            urns=tuple(moved),
        )


def _unprotected(changes: Changes) -> Iterator[Danger]:
    for resource in changes.resources:
        lost = [
            change.path
            for change in (*resource.options, *resource.properties)
            if change.path in ("protect", "retainOnDelete", "deletionProtection")
            and change.before is True
            and change.after is not True
        ]
        if lost:
            yield Danger(
                id="protection-removed",
                message=f"{resource.name} loses its protection ({', '.join(lost)}): the next change may delete it.",
                urns=(resource.urn,),
            )
