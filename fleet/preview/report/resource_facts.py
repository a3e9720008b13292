"""The important properties of a resource: for each kind a table of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from facts.texts import plural
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import UNKNOWN, Secret

Facts = Iterator[str]
Row = tuple[str, str]
"""A path, `*` for every item of a list, and how its values are shown."""


def facts_of(resource: RecordedResource) -> tuple[str, ...]:
    """Facts to show beside the resource's name; empty for self-explanatory kinds."""
    kind, inputs = kind_of(resource.type), resource.inputs
    facts = [*(_SPECIAL[kind](inputs) if kind in _SPECIAL else ()), *_of_rows(_ROWS.get(kind, ()), inputs)]
    if "spec.replicas" in resource.ignore_changes and at(inputs, "spec.replicas") is not None:
        facts[0] = f"{facts[0]} at first, then managed externally"
    if resource.protect:
        facts.append("protected")
    if resource.retain_on_delete:
        facts.append("kept on destroy")
    return tuple(facts)


def _of_rows(rows: Sequence[Row], inputs: Any) -> Facts:
    for path, shown in rows:
        found = (str(value) for value in _every(inputs, path.split(".")))
        values = [value.removeprefix("roles/").removesuffix(".googleapis.com") for value in found]
        if values:
            yield shown.format(", ".join(values))


def _every(value: Any, parts: Sequence[str]) -> Iterator[Any]:
    """The known texts and numbers at a path."""
    if not parts:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
    elif parts[0] == "*":
        for item in _items(value):
            yield from _every(item, parts[1:])
    elif isinstance(value, Mapping):
        # Names of labels and of resources have dots in them.
        for length in range(1, len(parts) + 1):
            yield from _every(_known(value.get(".".join(parts[:length]))), parts[length:])
    else:
        yield from _every(at(value, parts[0]), parts[1:])


def kind_of(type_: str) -> str:
    """A short type name: `Deployment`, `compute.Network`, `Cluster`, `Provider`."""
    package, _, rest = type_.partition(":")
    module, _, name = rest.rpartition(":")
    if package == "kubernetes" or package not in ("gcp", "pulumi"):
        return name
    if package == "pulumi":
        return "Stack" if name == "Stack" else f"{name} provider" if module == "providers" else name
    return f"{module.partition('/')[0]}.{name}"


def cloud_name(resource: RecordedResource) -> str:
    """The resource's name in the cloud if the program sets one, else its Pulumi name."""
    for path in ("metadata.name", "name"):
        name = at(resource.inputs, path)
        if isinstance(name, str) and resource.custom:
            return name
    return resource.name


def at(value: Any, path: str) -> Any:
    """The value at a dotted path; None if absent, unknown or secret."""
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return _known(value)


def _known(value: Any) -> Any:
    return None if value is UNKNOWN or isinstance(value, Secret) else value


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _deployment(inputs: Any) -> Facts:
    replicas = at(inputs, "spec.replicas")
    if replicas is not None:
        yield plural(replicas, "replica") if isinstance(replicas, int) else f"{replicas} replicas"
    elif "replicas" not in (at(inputs, "spec") or {}):
        yield "replicas managed externally"


_MOST_KEYS: Final = 6
"""Maximum of ConfigMap keys listed. Assumed: longer lists are not useful."""


def _config_map(inputs: Any) -> Facts:
    if isinstance(data := at(inputs, "data"), Mapping):
        yield ", ".join(sorted(data)) if len(data) <= _MOST_KEYS else f"{len(data)} files"


_PRIORITIES: Final = {"reservations": "reservation", "flexStart": "flex-start", "spot": "spot"}


def _compute_class(inputs: Any) -> Facts:
    priorities = [
        _PRIORITIES[key]
        for priority in _items(at(inputs, "spec.priorities"))
        for key in _PRIORITIES
        if at(priority, key)
    ]
    if priorities:
        yield ", then ".join(priorities)


def _subnetwork(inputs: Any) -> Facts:
    yield from map(str, _every(inputs, ("ipCidrRange",)))
    for one in _items(at(inputs, "secondaryIpRanges")):
        yield f"{at(one, 'rangeName')} {at(one, 'ipCidrRange')}"
    if at(inputs, "purpose") == "REGIONAL_MANAGED_PROXY":
        yield "proxies only"


def _cluster(inputs: Any) -> Facts:
    if at(inputs, "enableAutopilot"):
        yield "Autopilot"
    if at(inputs, "privateClusterConfig.enablePrivateNodes"):
        yield "private nodes"
    if at(inputs, "deletionProtection") is False:
        yield "no deletion protection"


_SPECIAL: Final[Mapping[str, Callable[[Any], Facts]]] = {
    "Deployment": _deployment,
    "ConfigMap": _config_map,
    "ComputeClass": _compute_class,
    "compute.Subnetwork": _subnetwork,
    "container.Cluster": _cluster,
}
_POD: Final = "spec.template.spec"
_SERVER: Final[tuple[Row, ...]] = (
    (f"{_POD}.containers.0.resources.requests.nvidia.com/gpu", "{} GPU"),
    (f"{_POD}.containers.0.resources.requests.cpu", "{} CPU"),
    (f"{_POD}.containers.0.resources.requests.memory", "{}"),
    (f"{_POD}.nodeSelector.cloud.google.com/gke-accelerator", "{}"),
    (f"{_POD}.nodeSelector.cloud.google.com/machine-family", "{}"),
    (f"{_POD}.nodeSelector.cloud.google.com/reservation-name", "{}"),
    (f"{_POD}.nodeSelector.cloud.google.com/compute-class", "class {}"),
    (f"{_POD}.nodeSelector.cloud.google.com/gke-spot", "spot"),
    (f"{_POD}.nodeSelector.cloud.google.com/gke-flex-start", "flex-start"),
)
"""Resource requests of one pod, and where it runs."""
_MEMBER: Final[tuple[Row, ...]] = (("role", "{}"),)
_ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Deployment": (*_SERVER, (f"{_POD}.terminationGracePeriodSeconds", "{} s grace")),
    "Job": (*_SERVER, ("spec.completions", "{} completions")),
    "Rules": (("spec.groups.*.name", "groups {}"),),
    "ResourceQuota": (("spec.hard.requests.nvidia.com/gpu", "nvidia.com/gpu {}"),),
    "NetworkPolicy": (
        ("spec.policyTypes.*", "{}"),
        ("spec.ingress.*.ports.*.port", "in on port {}"),
        ("spec.egress.*.ports.*.port", "out to port {}"),
    ),
    "HTTPRoute": (("spec.rules.*.backendRefs.*.name", "to {}"), ("spec.rules.*.backendRefs.*.weight", "weight {}")),
    "Service": (("spec.type", "{}"), ("spec.ports.*.port", "port {}")),
    "PersistentVolumeClaim": (
        ("spec.resources.requests.storage", "{}"),
        ("spec.storageClassName", "{}"),
        ("spec.accessModes.*", "{}"),
    ),
    "PersistentVolume": (("spec.capacity.storage", "{}"), ("spec.accessModes.*", "{}")),
    "StorageClass": (("parameters.type", "{}"),),
    "VolumeSnapshotClass": (("deletionPolicy", "deletion policy {}"),),
    "VolumeSnapshotContent": (("spec.source.snapshotHandle", "{}"),),
    "PodDisruptionBudget": (("spec.maxUnavailable", "maxUnavailable {}"), ("spec.minAvailable", "minAvailable {}")),
    "Gateway": (("spec.gatewayClassName", "{}"), ("spec.listeners.*.port", "port {}")),
    "GCPBackendPolicy": (("spec.default.timeoutSec", "{} s timeout"),),
    "Release": (
        ("chart", "chart {}"),
        ("version", "{}"),
        ("values.inferenceExtension.resources.requests.cpu", "endpoint picker {} CPU"),
    ),
    "InferencePool": (("spec.targetPorts.*.number", "port {}"), ("spec.endpointPickerRef.name", "picker {}")),
    "PodMonitoring": (("spec.endpoints.*.port", "port {}"), ("spec.endpoints.*.interval", "every {}")),
    "projects.Service": (("service", "{}"),),
    "compute.RouterNat": (("minPortsPerVm", "from {} ports per node"), ("maxPortsPerVm", "to {}")),
    "compute.Firewall": (("sourceRanges.*", "from {}"), ("allows.*.ports.*", "port {}")),
    "container.Cluster": (("location", "{}"), ("releaseChannel.channel", "{}")),
    "projects.IAMMember": _MEMBER,
    "serviceaccount.IAMMember": _MEMBER,
    "storage.BucketIAMMember": _MEMBER,
    "artifactregistry.RepositoryIamMember": _MEMBER,
    "secretmanager.SecretIamMember": _MEMBER,
    "artifactregistry.Repository": (("format", "{}"), ("mode", "{}")),
    "storage.Bucket": (("location", "{}"), ("lifecycleRules.0.condition.age", "objects deleted after {} days")),
    "billing.Budget": (("amount.specifiedAmount.units", "${} a month"),),
}
