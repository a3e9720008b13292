"""Cases of the order in which Pulumi makes objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    POD,
    Edit,
    Patch,
    Props,
    Resources,
    append,
    arguments,
    drop,
    new,
    of_program,
    of_resource,
    options,
    put,
    result,
    set_at,
    sound,
    twin,
)

_SERVICE, _CLAIM, _WRITER_CLASS, _SPACE = (
    "server-service",
    "weights-writer",
    "weights-writer-class",
    "namespace-namespace",
)
_READER = "weights-reader"
_SERVICE_MADE = "workloads.server.server.k8s.core.v1.Service"
_DEPLOYMENT_MADE = "workloads.server.server.k8s.apps.v1.Deployment"
_AWAITED = drop(_SERVICE, "metadata.annotations", "pulumi.com/skipAwait")


def _needs(name: str, *others: str) -> Edit:
    """A resource that depends on these alone, outside of its component."""

    def edit(resources: Resources) -> None:
        options(name, parent="", dependencies=tuple(resources[other].urn for other in others))(resources)

    return edit


def _same_name(given: Props) -> None:
    given["metadata"] = {**given["metadata"], "name": "llm"}


def _in_a_text(real: Any) -> Any:
    """A component that is told the namespace's name, and neither depends on it nor stands in what does."""

    def make(name: str, args: Any, opts: pulumi.ResourceOptions) -> Any:
        plain = replace(args, space=replace(args.space, namespace="vllm-dev"))
        return real(name, plain, pulumi.ResourceOptions(providers=opts.providers))

    return make


def _circle() -> tuple[Patch, ...]:
    """A Service that is awaited, and servers that depend on it."""
    made: list[pulumi.Resource] = []
    return (
        arguments(_SERVICE_MADE, lambda given: given["metadata"].pop("annotations")),
        result(_SERVICE_MADE, lambda one: made.append(one)),
        arguments(_DEPLOYMENT_MADE, lambda given: setattr(given["opts"], "depends_on", [made[-1]])),
    )


def _object(kind: str, name: str) -> Edit:
    return new(name, f"kubernetes:{kind}", {"metadata": {"name": name, "namespace": HERE}})


def _elsewhere(props: Props) -> None:
    set_at(props, "metadata.namespace", value="elsewhere")


_CONFIG = _object("core/v1:ConfigMap", "settings")
_FILES = append(DEPLOYMENT, f"{POD}.volumes", {"name": "settings", "configMap": {"name": "settings"}})
_USES: dict[str, Edit] = {
    "in a projected volume": append(
        DEPLOYMENT, f"{POD}.volumes", {"name": "s", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}
    ),
    "in the environment": append(DEPLOYMENT, f"{CONTAINER}.envFrom", {"configMapRef": {"name": "settings"}}),
    "in a variable": append(
        DEPLOYMENT,
        f"{CONTAINER}.env",
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
    ),
}
_SOURCE = put(_CLAIM, "spec.dataSource", value={"kind": "VolumeSnapshot", "name": "filled"})
_FILLED = _object("snapshot.storage.k8s.io/v1:VolumeSnapshot", "filled")

CASES = (
    of_program(
        "object-made-twice",
        "two Services of one name",
        arguments(_SERVICE_MADE, _same_name),
        settings={"server": {"internalLoadBalancer": True}},
    ),
    of_resource(
        "object-made-twice",
        "a copy by another name in Pulumi",
        twin("copy", _SERVICE, lambda props: set_at(props, "metadata.labels.copy", value="yes")),
        says="server-service and copy both make Service qwen35-server",
    ),
    sound("object-made-twice", "the name in another namespace", twin("copy", _SERVICE, _elsewhere)),
    sound(
        "object-made-twice",
        "labels for the namespace from elsewhere",
        new("labels", "kubernetes:core/v1:NamespacePatch", {"metadata": {"name": HERE, "labels": {"a": "b"}}}),
        new("more", "kubernetes:core/v1:NamespacePatch", {"metadata": {"name": HERE, "labels": {"c": "d"}}}),
    ),
    of_program(
        "object-before-its-namespace",
        "servers told the namespace as a text",
        Patch(target="workloads.server.server.Server", stand_in=_in_a_text),
    ),
    of_resource(
        "object-before-its-namespace", "a Service that depends on nothing", _needs(_SERVICE), says="namespace vllm-dev"
    ),
    sound("object-before-its-namespace", "after what comes after it", _needs(_SERVICE, "weights-script")),
    sound("object-before-its-namespace", "inside of what comes after it", options(_SERVICE, dependencies=())),
    sound(
        "object-before-its-namespace",
        "a namespace of another program",
        _needs(_SERVICE),
        put(_SERVICE, "metadata.namespace", value="default"),
    ),
    of_program(
        "object-before-what-it-uses",
        "servers beside their weights",
        arguments(_DEPLOYMENT_MADE, lambda given: setattr(given["opts"], "depends_on", None)),
    ),
    of_resource(
        "object-before-what-it-uses",
        "servers beside their weights, written manually",
        _needs(DEPLOYMENT, _SPACE),
        says=("ServiceAccount vllm-server", "PersistentVolumeClaim weights-qwen3-5-27b-fp8-2e1b213-64gib-1200mibps-b"),
    ),
    of_resource("object-before-what-it-uses", "a ConfigMap in a volume", _CONFIG, _FILES, says="ConfigMap settings"),
    *(
        of_resource("object-before-what-it-uses", f"a ConfigMap {where}", _CONFIG, use, says="ConfigMap settings")
        for where, use in _USES.items()
    ),
    of_resource("object-before-what-it-uses", "a claim beside its class", _needs(_CLAIM, _SPACE), says="StorageClass"),
    of_resource(
        "object-before-what-it-uses", "a claim beside its snapshot", _FILLED, _SOURCE, says="VolumeSnapshot filled"
    ),
    sound("object-before-what-it-uses", "a ConfigMap of another program", _FILES),
    sound(
        "object-before-what-it-uses",
        "a ConfigMap that may be missing",
        _CONFIG,
        append(DEPLOYMENT, f"{POD}.volumes", {"name": "s", "configMap": {"name": "settings", "optional": True}}),
    ),
    sound(
        "object-before-what-it-uses", "a ConfigMap that comes after", _CONFIG, _FILES, _needs("settings", DEPLOYMENT)
    ),
    of_program("waits-for-each-other", "servers after the Service that waits for them", *_circle()),
    of_resource(
        "waits-for-each-other",
        "a ConfigMap that comes after its pods",
        _CONFIG,
        _FILES,
        _needs("settings", DEPLOYMENT),
        says="ConfigMap settings, which is made once Deployment qwen35-server is ready",
    ),
    of_resource(
        "waits-for-each-other",
        "servers after the Service that waits for them, written manually",
        _AWAITED,
        _needs(DEPLOYMENT, _SERVICE, _READER),
        says="Deployment qwen35-server, whose pods it selects",
    ),
    sound("waits-for-each-other", "a Service that waits for nobody", _needs(DEPLOYMENT, _SERVICE, _READER)),
    sound("waits-for-each-other", "a Service beside its servers", _AWAITED),
    sound(
        "waits-for-each-other",
        "pods that nobody waits for",
        _CONFIG,
        _FILES,
        _needs("settings", DEPLOYMENT),
        put(DEPLOYMENT, "metadata.annotations", "pulumi.com/skipAwait", value="true"),
    ),
)
