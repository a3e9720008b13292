"""Rules for the order in which Pulumi makes objects that need each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from objects import Order, cluster_wide, named, namespace_of, of_kind, own_name, selects
from pods import Pod, pods
from rule import Finding, Resource, Settings, StackRule, dig, listed, mapped

SKIP_AWAIT: Final = "pulumi.com/skipAwait"
WAIT_FOR: Final = "pulumi.com/waitFor"
"""Source: pulumi-kubernetes 4, provider/pkg/metadata/annotations.go."""
_USED: Final[Mapping[str, str]] = {
    "persistentVolumeClaim": "PersistentVolumeClaim",
    "configMap": "ConfigMap",
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "secret": "Secret",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}
"""Kinds of the objects that volumes and variables of a pod refer to, by field. Source: Kubernetes 1.36, PodSpec."""
_NAMES: Final = ("claimName", "secretName", "name")
_Names = dict[tuple[str, str, str], Resource]
"""Objects by kind, namespace and name."""


def annotation(resource: Resource, name: str) -> str | None:
    """An annotation of the object itself."""
    value = dig(resource.props, "metadata", "annotations", name)
    return None if value is None else str(value)


def is_awaited(resource: Resource) -> bool:
    """Whether Pulumi waits until the object is ready."""
    return annotation(resource, SKIP_AWAIT) != "true"


def _objects(resources: Sequence[Resource]) -> Iterator[Resource]:
    """The objects of the Kubernetes API, without the parts that `...Patch` resources write into one."""
    for one in resources:
        if one.is_kubernetes and not one.kind.endswith("Patch") and dig(one.props, "metadata", "name"):
            yield one


def group(resource: Resource) -> str:
    """API group, `core` for the core group."""
    return resource.type.split(":")[1].partition("/")[0]


def _twice(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    found: dict[tuple[str, ...], list[Resource]] = defaultdict(list)
    for one in _objects(resources):
        found[group(one), one.kind, namespace_of(one), own_name(one)].append(one)
    for first, *others in found.values():
        for other in others:
            yield Finding(
                what=f"{first.name} and {other.name} both make {named(first)}",
                urn=other.urn,
            )


def _before_namespace(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    order, spaces = Order(resources), {own_name(one): one for one in of_kind(resources, "Namespace", "core")}
    for one in resources:
        if one.is_kubernetes and dig(one.props, "metadata", "namespace"):
            space = spaces.get(namespace_of(one))
            if space is not None and not order.is_before(space, one):
                yield Finding(what=f"{named(one)} does not depend on its namespace {own_name(space)}", urn=one.urn)


def _uses(pod: Pod) -> Iterator[tuple[str, str]]:
    """Kind and name of each object without which the pod does not start."""
    yield "ServiceAccount", str(dig(pod.spec, "serviceAccountName") or "")
    for volume in listed(dig(pod.spec, "volumes")):
        yield "SecretProviderClass", str(dig(volume, "csi", "volumeAttributes", "secretProviderClass") or "")
        for source in (volume, *listed(dig(volume, "projected", "sources"))):
            yield from _sources(source)
    for container in (*pod.init_containers, *pod.containers):
        for source in listed(dig(container.props, "envFrom")):
            yield from _sources(source)
        for variable in listed(dig(container.props, "env")):
            yield from _sources(dig(variable, "valueFrom"))


def _sources(source: Any) -> Iterator[tuple[str, str]]:
    for field in mapped(source):
        if field in _USED and dig(source, field, "optional") is not True:
            yield _USED[field], next((str(name) for key in _NAMES if (name := dig(source, field, key))), "")


def _by_name(resources: Sequence[Resource]) -> _Names:
    return {(one.kind, namespace_of(one), own_name(one)): one for one in _objects(resources)}


def _used(resource: Resource, by_name: _Names) -> dict[str, Resource]:
    """The objects of the stack that a resource's pods use, by URN."""
    found = (by_name.get((kind, pod.namespace, name)) for pod in pods(resource) for kind, name in _uses(pod))
    return {one.urn: one for one in found if one is not None}


def _before_needs(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    order, by_name, classes = Order(resources), _by_name(resources), cluster_wide(resources, "StorageClass")
    for one in resources:
        needed = _used(one, by_name)
        if one.is_kubernetes and one.kind == "PersistentVolumeClaim":
            source = mapped(dig(one.props, "spec", "dataSource") or dig(one.props, "spec", "dataSourceRef"))
            origin = by_name.get((str(dig(source, "kind")), namespace_of(one), str(dig(source, "name"))))
            given = (classes.get(str(dig(one.props, "spec", "storageClassName") or "")), origin)
            needed = {need.urn: need for need in given if need is not None}
        # What comes after its user is told by waits-for-each-other.
        early = [
            named(need) for need in needed.values() if not order.is_before(need, one) and not order.is_before(one, need)
        ]
        if early:
            yield Finding(what=f"{named(one)} does not depend on {', '.join(early)}, which it uses", urn=one.urn)


def _each_other(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    order, by_name = Order(resources), _by_name(resources)
    for one in resources:
        if not pods(one) or not is_awaited(one):
            continue
        for need in _used(one, by_name).values():
            if order.is_before(one, need):
                yield Finding(
                    what=f"the pods of {named(one)} use {named(need)}, which is made once {named(one)} is ready",
                    fix=f"remove the dependency of {named(need)} on {named(one)}",
                    urn=one.urn,
                )
    for service in awaited_services(resources):
        behind = pods_of(service, resources)
        if behind and all(order.is_before(service, pod.resource) for pod in behind):
            yield Finding(
                what=f"{named(service)} waits for a ready pod, and {named(behind[0].resource)}, whose pods it selects, is made "
                "once it has one",
                fix=f'{SKIP_AWAIT}: "true" in the annotations of the Service',
                urn=service.urn,
            )


def awaited_services(resources: Sequence[Resource]) -> Iterator[Resource]:
    """Services that Pulumi takes for ready once a pod behind them is. Source: pulumi-kubernetes 4, provider/pkg/await/service.go."""
    for one in of_kind(resources, "Service", "core"):
        spec = dig(one.props, "spec")
        headless = dig(spec, "clusterIP") == "None" or dig(spec, "type") == "ExternalName"
        if not headless and mapped(dig(spec, "selector")) and is_awaited(one) and annotation(one, WAIT_FOR) is None:
            yield one


def pods_of(service: Resource, resources: Sequence[Resource]) -> list[Pod]:
    """The pods of the stack that a Service selects, without those of Jobs, which come and go."""
    selector, space = dig(service.props, "spec", "selector"), namespace_of(service)
    return [
        pod
        for one in resources
        for pod in pods(one)
        if one.kind not in ("Job", "CronJob") and pod.namespace == space and selects(selector, pod.labels)
    ]


RULES: Final = (
    StackRule(
        name="object-made-twice",
        subject="rollout",
        statement="An object of the cluster is made by one resource.",
        evidence="the cluster refuses the second one because the object already exists, and deleting either deletes the object of "
        "both. Source: pulumi-kubernetes 4, provider/pkg/await/await.go. Mandatory: the update fails",
        fix="another metadata.name, or one resource less",
        level="mandatory",
        severity="high",
        judge=_twice,
    ),
    StackRule(
        name="object-before-its-namespace",
        subject="rollout",
        statement="An object depends on the namespace that it is in, if the stack makes it.",
        evidence="both are made at the same time: the provider tries a refused object again five times within about 30 s, then the "
        "update fails, and a destroy deletes both at the same time. Source: pulumi-kubernetes 4, provider/pkg/await/await.go. "
        "Mandatory: an update that fails only sometimes",
        fix="metadata.namespace from the Namespace's output, or depends_on",
        level="mandatory",
        severity="medium",
        judge=_before_namespace,
    ),
    StackRule(
        name="object-before-what-it-uses",
        subject="rollout",
        statement="Pods and claims depend on what they use of the stack: claims, ConfigMaps, Secrets, accounts, classes, snapshots.",
        evidence="both are made at the same time: pods stay Pending until the other is there, and Pulumi gives up after five minutes on "
        "a claim whose class or snapshot came too late. Source: Kubernetes, PodSpec; pulumi-kubernetes 4, provider/pkg/await/"
        "awaiters.go. Advisory: mostly it is only slow",
        fix="add it to depends_on",
        level="advisory",
        severity="medium",
        judge=_before_needs,
    ),
    StackRule(
        name="waits-for-each-other",
        subject="rollout",
        statement="Nothing that Pulumi waits for needs what comes after it.",
        evidence="Pulumi makes what depends on an object once that object is ready, which it never is. Source: pulumi-kubernetes 4, "
        "provider/pkg/await. Mandatory: a first update stops until a timeout and fails",
        fix="remove one of the two dependencies",
        level="mandatory",
        severity="high",
        judge=_each_other,
    ),
)
