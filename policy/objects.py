"""Kubernetes objects of a stack: lookup by name, label selectors, mounted claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from pods import Pod, pods
from rule import Resource, dig, has, listed, mapped

Key = tuple[str, str]
"""Namespace and name."""
SYSTEM_NAMESPACES: Final = ("kube-", "gke-", "gmp-")
"""How names of namespaces begin that Kubernetes and GKE fill."""


def own_name(resource: Resource) -> str:
    """The object's name in the cluster, or Pulumi's where missing."""
    return str(dig(resource.props, "metadata", "name") or resource.name)


def namespace_of(resource: Resource) -> str:
    """The object's namespace."""
    return str(dig(resource.props, "metadata", "namespace") or "default")


def named(resource: Resource) -> str:
    """Name in messages: kind and name in the cluster."""
    return f"{resource.kind} {own_name(resource)}"


def number(value: Any) -> float | None:
    """A finite number in a manifest; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def shown(value: Any) -> str:
    """A value for a message: whole numbers without the decimals that Pulumi's protocol gives them."""
    plain = number(value)
    if plain is not None and plain == int(plain):
        return str(int(plain))
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def of_kind(resources: Sequence[Resource], kind: str, group: str = "") -> Iterator[Resource]:
    """The Kubernetes objects of a kind, optionally of one API group, such as `networking.gke.io` or `core`."""
    for resource in resources:
        if (
            resource.is_kubernetes
            and resource.kind == kind
            and (not group or resource.type.split(":")[1].startswith(f"{group}/"))
        ):
            yield resource


def by_key(resources: Sequence[Resource], kind: str) -> dict[Key, Resource]:
    """The namespaced objects of a kind by namespace and name."""
    return {(namespace_of(resource), own_name(resource)): resource for resource in of_kind(resources, kind)}


def cluster_wide(resources: Sequence[Resource], kind: str) -> dict[str, Resource]:
    """The cluster-scoped objects of a kind by name."""
    return {own_name(resource): resource for resource in of_kind(resources, kind)}


def all_pods(resources: Sequence[Resource]) -> Iterator[Pod]:
    """The pods of the stack's objects."""
    for resource in resources:
        yield from pods(resource)


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a LabelSelector, or a plain map of labels, selects an object with these labels. An empty one selects all."""
    selector = mapped(selector)
    wanted = selector if not has(selector, "matchLabels") and not has(selector, "matchExpressions") else None
    exact = mapped(wanted if wanted is not None else dig(selector, "matchLabels"))
    if any(dig(labels, key) != exact[key] for key in exact):
        return False
    return all(_holds(expression, labels) for expression in listed(dig(selector, "matchExpressions")))


def _holds(expression: Any, labels: Mapping[str, Any]) -> bool:
    key, operator = str(dig(expression, "key")), dig(expression, "operator")
    values = tuple(listed(dig(expression, "values")))
    value = dig(labels, key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


@dataclass(frozen=True)
class MountedClaim:
    """A pod's volume for a PersistentVolumeClaim, with its mounts."""

    pod: Pod
    path: str
    """Path of the volume in the object, for messages."""
    claim: Key
    read_only: bool
    """Whether the claim is attached read-only; a mount's own `readOnly` leaves the disk attached for writing."""
    mounts: tuple[Mount, ...]


@dataclass(frozen=True)
class Mount:
    """A container's mount of a volume."""

    path: str
    """Path of the mount in the object, for messages."""
    folder: str
    read_only: bool


def mounted_claims(pod: Pod) -> Iterator[MountedClaim]:
    """The claims that a pod mounts by name."""
    for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
        source = dig(volume, "persistentVolumeClaim")
        if isinstance(source, Mapping):
            name = str(dig(volume, "name"))
            yield MountedClaim(
                pod=pod,
                path=f"{pod.spec_path}.volumes[{index}]",
                claim=(pod.namespace, str(dig(source, "claimName"))),
                read_only=dig(source, "readOnly") is True,
                mounts=tuple(_mounts(pod, name)),
            )


def _mounts(pod: Pod, volume: str) -> Iterator[Mount]:
    for container in (*pod.init_containers, *pod.containers):
        for index, mount in enumerate(listed(dig(container.props, "volumeMounts"))):
            if dig(mount, "name") == volume:
                yield Mount(
                    path=f"{container.path}.volumeMounts[{index}]",
                    folder=str(dig(mount, "mountPath") or ""),
                    read_only=dig(mount, "readOnly") is True,
                )


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
