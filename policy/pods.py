"""Pods of Kubernetes objects: containers, requests, selectors and vLLM servers.

Values are read lazily: a value that is unknown during a preview stops only the rules that need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, Final

from facts import engines, node_room
from facts.lessons.deliberate import exception_for
from facts.machines import MACHINES, Gpu, Machine, of_accelerator
from facts.quantities import quantity
from rule import Resource, dig, has, listed, mapped
from server_command import Started, is_server_image, server_arguments
from tokens import ACCELERATOR, ACCELERATOR_COUNT, COMPUTE_CLASS, GPU, INSTANCE_TYPE, ON_PURPOSE, REPRODUCES

_BY_CLASS: Final = tuple(
    (re.compile(rf"(?<![a-z0-9]){name.removeprefix('nvidia-')}(?![a-z0-9])"), name)
    for name in sorted({machine.accelerator for machine in MACHINES.values()})
)
"""Finds the GPU in the name of a ComputeClass: a pod shows nothing else of its class."""

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec", "template")),
}
"""Path of the pod template of each kind."""


def _whole(value: Any) -> int:
    """A count; 1 where missing or not a number."""
    amount = quantity(value)
    return 1 if amount is None else int(amount)


@dataclass(frozen=True)
class Container:
    """One container."""

    props: Mapping[str, Any]
    path: str
    """Path in the object, for messages."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(dig(self.props, "name") or "")

    @property
    def image(self) -> str:
        """Its image, empty where missing."""
        return str(dig(self.props, "image") or "")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """`command` followed by `args`."""
        return tuple(str(word) for key in ("command", "args") for word in listed(dig(self.props, key)))

    def env(self, name: str) -> str | None:
        """A variable's literal value; the last one wins. None where unset or from a ConfigMap, Secret or field."""
        found = None
        for one in listed(dig(self.props, "env")):
            if dig(one, "name") == name:
                found = dig(one, "value")
        return None if found is None else str(found)

    @property
    def env_names(self) -> tuple[str, ...]:
        """Names of all variables."""
        return tuple(str(dig(one, "name")) for one in listed(dig(self.props, "env")))

    def requested(self, resource: str) -> float | None:
        """Its request, or its limit where the request is missing, as in Kubernetes."""
        for part in ("requests", "limits"):
            amount = quantity(dig(self.props, "resources", part, resource))
            if amount is not None:
                return amount
        return None

    @cached_property
    def started(self) -> Started | None:
        """The vLLM server that this container starts, otherwise None."""
        started = server_arguments(self.words)
        if started is None and not self.words_name_a_program and is_server_image(self.image):
            # The public image's entrypoint is `vllm serve`; `args` are its arguments.
            started = Started(entrypoint="serve", arguments=self.words)
        return started

    @cached_property
    def flags(self) -> engines.Flags | None:
        """Options of its vLLM server, None without one."""
        started = self.started
        return None if started is None else engines.parse(started.arguments, entrypoint=started.entrypoint)

    @property
    def words_name_a_program(self) -> bool:
        """Whether `command` replaces the image's entrypoint."""
        return bool(tuple(listed(dig(self.props, "command"))))


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod, or the template of pods."""

    resource: Resource
    template: Mapping[str, Any]
    path: str
    """Path of the template in the object, "" for a bare pod."""

    @property
    def spec_path(self) -> str:
        """Path of its spec in the object, for messages."""
        return f"{self.path}.spec" if self.path else "spec"

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapped(dig(self.template, "spec"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Annotations of the pods."""
        return mapped(dig(self.template, "metadata", "annotations"))

    @property
    def labels(self) -> Mapping[str, Any]:
        """Labels of the pods."""
        return mapped(dig(self.template, "metadata", "labels"))

    def annotation(self, name: str) -> str | None:
        """An annotation of the pods, or of their object."""
        value = dig(self.annotations, name)
        if value is None:
            value = dig(self.resource.props, "metadata", "annotations", name)
        return None if value is None else str(value)

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        return str(dig(self.resource.props, "metadata", "namespace") or "default")

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Its containers, without init containers."""
        return self._containers("containers")

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        """Its init containers."""
        return self._containers("initContainers")

    @cached_property
    def every_container(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return (*self.init_containers, *self.containers)

    def _containers(self, key: str) -> tuple[Container, ...]:
        return tuple(
            Container(mapped(one), f"{self.spec_path}.{key}[{index}]")
            for index, one in enumerate(listed(dig(self.spec, key)))
        )

    @property
    def replicas(self) -> int:
        """Number of these pods; 1 where missing, or not the program's."""
        kind, spec = self.resource.kind, dig(self.resource.props, "spec")
        if kind == "Job":
            return _whole(dig(spec, "parallelism"))
        return _whole(dig(spec, "replicas")) if fixes_replicas(self.resource) else 1

    @cached_property
    def gpus(self) -> int:
        """GPUs of one pod, those of its sidecars included."""
        sidecars = [
            container for container in self.init_containers if dig(container.props, "restartPolicy") == "Always"
        ]
        return int(sum(container.requested(GPU) or 0 for container in (*self.containers, *sidecars)))

    @property
    def selectors(self) -> Mapping[str, Any]:
        """Its node selector."""
        return mapped(dig(self.spec, "nodeSelector"))

    def selector(self, key: str) -> str | None:
        """Required value of a node label: from the node selector, or from a required affinity with one value."""
        value = dig(self.selectors, key)
        if value is not None:
            return _text(value)
        terms = dig(self.spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        found = {
            str(dig(expression, "values", 0))
            for term in listed(dig(terms, "nodeSelectorTerms"))
            for expression in listed(dig(term, "matchExpressions"))
            if dig(expression, "key") == key
            and dig(expression, "operator") == "In"
            and len(dig(expression, "values") or ()) == 1
        }
        return found.pop() if len(found) == 1 else None

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        """Machines that match its selectors, smallest first: by machine type, GPU, or a ComputeClass named after the GPU."""
        if (named := self.selector(INSTANCE_TYPE)) is not None:
            return (MACHINES[named],) if named in MACHINES else ()
        label = self.selector(ACCELERATOR)
        if label is None and (name := self.compute_class):
            label = next((accelerator for called, accelerator in _BY_CLASS if called.search(name)), None)
        count = self.selector(ACCELERATOR_COUNT)
        found = of_accelerator(label) if label else ()
        return tuple(machine for machine in found if count in (None, str(machine.gpus)))

    @property
    def gpu(self) -> Gpu | None:
        """Its GPU; None where unknown."""
        return self.machines[0].gpu if self.machines else None

    @property
    def shares_its_node(self) -> bool:
        """Whether it requests a share of a machine."""
        return self.selector(ACCELERATOR_COUNT) is not None

    @cached_property
    def machine(self) -> Machine | None:
        """The smallest matching machine with its GPU count that fits its requests; None where unknown."""
        whole = [machine for machine in self.machines if self.shares_its_node or machine.gpus == self.gpus]
        asked = {
            name: sum(container.requested(name) or 0 for container in self.containers) for name in ("cpu", "memory")
        }
        for machine in whole:
            room = node_room.of_machine(machine)
            if asked["cpu"] * 1000 <= room.cpu_milli and asked["memory"] <= room.memory_bytes:
                return machine
        return next(iter((*whole, *self.machines)), None)

    def nodes_for(self, pods: int) -> int:
        """Nodes for this many pods; of eight GPUs where the machine is unknown."""
        whole = 8 if self.machine is None else self.machine.gpus
        return ceil(pods * self.gpus / whole) if self.shares_its_node else pods * ceil(self.gpus / whole)

    @property
    def gpu_nodes(self) -> int:
        """Whole nodes for all its replicas."""
        return self.nodes_for(self.replicas)

    @property
    def compute_class(self) -> str | None:
        """Its ComputeClass."""
        return self.selector(COMPUTE_CLASS)


@dataclass(frozen=True)
class Server:
    """A container that runs a vLLM server."""

    pod: Pod
    container: Container
    flags: engines.Flags

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"{self.pod.resource.label}, container {self.container.name or 0}"


def fixes_replicas(resource: Resource) -> bool:
    """Whether the number of pods is the program's: written, and not ignored as an autoscaler's first or last number."""
    return has(dig(resource.props, "spec"), "replicas") and "spec.replicas" not in resource.ignore_changes


def pods(resource: Resource) -> tuple[Pod, ...]:
    """The pods of a Kubernetes object."""
    if "pods" not in resource.parsed:
        resource.parsed["pods"] = tuple(_pods(resource))
    found: tuple[Pod, ...] = resource.parsed["pods"]
    return found


def servers(resource: Resource) -> tuple[Server, ...]:
    """The vLLM servers in a Kubernetes object."""
    if "servers" not in resource.parsed:
        resource.parsed["servers"] = tuple(
            Server(pod, container, flags)
            for pod in pods(resource)
            for container in pod.every_container
            if (flags := container.flags) is not None
        )
    found: tuple[Server, ...] = resource.parsed["servers"]
    return found


def all_servers(resources: Sequence[Resource]) -> Iterator[Server]:
    """The vLLM servers of a stack."""
    for resource in resources:
        yield from servers(resource)


def on_purpose(resource: Resource) -> frozenset[str]:
    """Names of the rules that a workload deliberately breaks to reproduce a published result, of those that this result excuses."""
    for pod in pods(resource):
        if (row := pod.annotation(REPRODUCES)) and (names := pod.annotation(ON_PURPOSE)):
            return frozenset(name for one in names.split(",") if exception_for(row, name := one.strip()))
    return frozenset()


def _pods(resource: Resource) -> Iterator[Pod]:
    path = _TEMPLATES.get(resource.kind) if resource.is_kubernetes else None
    if path is not None and isinstance(template := dig(resource.props, *path), Mapping):
        yield Pod(resource, template, ".".join(path))


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
