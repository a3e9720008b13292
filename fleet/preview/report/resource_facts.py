"""The important properties of a resource: for each kind a table of paths."""

from __future__ import annotations

import json
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


def _map(value: Any, path: str) -> Mapping[str, Any]:
    """The map at a path, without unknown or secret values."""
    found = at(value, path)
    if not isinstance(found, Mapping):
        return {}
    return {key: item for key, item in found.items() if _known(item) is not None}


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


_POD: Final = "spec.template.spec"


def _pod(inputs: Any) -> Facts:
    """Resource requests of one pod, and where it runs."""
    requests = _map(inputs, f"{_POD}.containers.0.resources.requests")
    if gpus := requests.get("nvidia.com/gpu"):
        yield f"{gpus} GPU{'' if str(gpus) == '1' else 's'}"
    if requests.get("cpu"):
        yield f"{requests['cpu']} CPU"
    if requests.get("memory"):
        yield str(requests["memory"])
    for key, value in _map(inputs, f"{_POD}.nodeSelector").items():
        name = key.rpartition("/")[2]
        if name in ("gke-accelerator", "machine-family", "reservation-name"):
            yield str(value)
        elif name == "compute-class":
            yield f"class {value}"
        elif name in ("gke-spot", "gke-flex-start") and value == "true":
            yield name.removeprefix("gke-")


def _deployment(inputs: Any) -> Facts:
    replicas = at(inputs, "spec.replicas")
    if replicas is not None:
        yield plural(replicas, "replica") if isinstance(replicas, int) else f"{replicas} replicas"
    elif "replicas" not in (at(inputs, "spec") or {}):
        yield "replicas managed externally"
    yield from _pod(inputs)


def _rules(inputs: Any) -> Facts:
    groups = _items(at(inputs, "spec.groups"))
    yield plural(sum(len(_items(at(group, "rules"))) for group in groups), "rule")


def _quota(inputs: Any) -> Facts:
    for name, amount in _map(inputs, "spec.hard").items():
        yield f"{name.removeprefix('requests.').removeprefix('limits.')} {amount}"


def _network_policy(inputs: Any) -> Facts:
    spec = at(inputs, "spec")
    types, ingress, egress = (_items(at(spec, name)) for name in ("policyTypes", "ingress", "egress"))
    if types and not ingress and not egress:
        yield "denies all " + " and ".join(str(type_).lower() for type_ in types)
    for direction, rules in (("from", ingress), ("to", egress)):
        ports = ", ".join(map(str, _every(rules, ("*", "ports", "*", "port"))))
        if rules:
            yield f"{plural(len(rules), 'rule')} {direction} others" + (f", port {ports}" if ports else "")


def _config_map(inputs: Any) -> Facts:
    if not isinstance(data := at(inputs, "data"), Mapping):
        return
    if isinstance(run := data.get("run.json"), str):
        yield from _benchmark_run(run)
    yield ", ".join(sorted(data)) if len(data) <= _MOST_KEYS else f"{len(data)} files"


_MOST_KEYS: Final = 6
"""Maximum of ConfigMap keys listed. Assumed: longer lists are not useful."""


def _benchmark_run(text: str) -> Facts:
    """Facts of a benchmark's run.json. Source: fleet/bench/folder.py, Asked."""
    try:
        run = json.loads(text)
        points = [(int(point["connections"]), int(point["clients"])) for point in run["points"]]
        workload, repeats = str(run["workload"]["name"]), int(run["repeats"])
        connections, clients = max(points)
    except (ValueError, KeyError, TypeError):
        return
    yield f"workload {workload}"
    loads = "" if len(points) == 1 else f"{len(points)} loads up to "
    yield f"{loads}{connections:,} in flight from {clients} client{'s' * (clients != 1)}"
    yield f"{repeats} repeat{'s' * (repeats != 1)}"


def _route(inputs: Any) -> Facts:
    rules = _items(at(inputs, "spec.rules"))
    backends = [one for rule in rules for one in _items(at(rule, "backendRefs"))]
    if len(backends) > 1:
        yield ", ".join(f"{at(one, 'weight')} % of requests to {at(one, 'name')}" for one in backends)


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
    "Job": _pod,
    "Rules": _rules,
    "ResourceQuota": _quota,
    "NetworkPolicy": _network_policy,
    "ConfigMap": _config_map,
    "HTTPRoute": _route,
    "ComputeClass": _compute_class,
    "compute.Subnetwork": _subnetwork,
    "container.Cluster": _cluster,
}
_MEMBER: Final[tuple[Row, ...]] = (("role", "{}"),)
_ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Deployment": ((f"{_POD}.terminationGracePeriodSeconds", "{} s grace"),),
    "Job": (("spec.completions", "{} completions"),),
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
