"""The important properties of a resource, formatted. One function per kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from facts.texts import plural
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import UNKNOWN, Secret

Facts = Iterator[str]


def facts_of(resource: RecordedResource) -> tuple[str, ...]:
    """Facts to show beside the resource's name; empty for self-explanatory kinds."""
    read = _FACTS.get(kind_of(resource.type))
    facts = list(read(resource.inputs)) if read is not None else []
    if "spec.replicas" in resource.ignore_changes and at(resource.inputs, "spec.replicas") is not None:
        facts[0] = f"{facts[0]} at first, then managed externally"
    if resource.protect:
        facts.append("protected")
    if resource.retain_on_delete:
        facts.append("kept on destroy")
    return tuple(facts)


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


def _items(value: Any, path: str) -> Sequence[Any]:
    found = at(value, path)
    return found if isinstance(found, Sequence) and not isinstance(found, str) else ()


def _ports(ports: Sequence[Any]) -> str:
    return ", ".join(str(at(port, "port")) for port in ports if at(port, "port") is not None)


def _pod(spec: Any) -> Facts:
    """Resource requests of one pod."""
    requests = _map(spec, "containers.0.resources.requests")
    if gpus := requests.get("nvidia.com/gpu"):
        yield f"{gpus} GPU{'' if str(gpus) == '1' else 's'}"
    if requests.get("cpu"):
        yield f"{requests['cpu']} CPU"
    if requests.get("memory"):
        yield str(requests["memory"])
    for key, value in _map(spec, "nodeSelector").items():
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
    yield from _pod(at(inputs, "spec.template.spec"))
    grace = at(inputs, "spec.template.spec.terminationGracePeriodSeconds")
    if grace is not None:
        yield f"{grace} s grace"


def _job(inputs: Any) -> Facts:
    completions = at(inputs, "spec.completions")
    if completions is not None and completions != 1:
        yield f"{completions} pods"
    yield from _pod(at(inputs, "spec.template.spec"))


def _service(inputs: Any) -> Facts:
    headless = at(inputs, "spec.clusterIP") == "None"
    yield "headless" if headless else str(at(inputs, "spec.type") or "ClusterIP")
    yield f"port {_ports(_items(inputs, 'spec.ports'))}"


def _claim(inputs: Any) -> Facts:
    for path in ("spec.resources.requests.storage", "spec.storageClassName"):
        if (found := at(inputs, path)) is not None:
            yield str(found)
    yield from map(str, _items(inputs, "spec.accessModes"))


def _volume(inputs: Any) -> Facts:
    if (size := at(inputs, "spec.capacity.storage")) is not None:
        yield str(size)
    yield from map(str, _items(inputs, "spec.accessModes"))


def _storage_class(inputs: Any) -> Facts:
    for key, value in _map(inputs, "parameters").items():
        if key == "type":
            yield str(value)
        elif "throughput" in key:
            # The CSI driver reads "4800Mi" as 4800 MiB/s.
            yield f"{str(value).removesuffix('Mi')} MiB/s"


def _snapshot_class(inputs: Any) -> Facts:
    if (kind := at(inputs, "parameters.snapshot-type")) is not None:
        yield str(kind)
    if (policy := at(inputs, "deletionPolicy")) is not None:
        yield f"{str(policy).lower()} with its object" if policy == "Delete" else "outlives its object"


def _snapshot_content(inputs: Any) -> Facts:
    if (handle := at(inputs, "spec.source.snapshotHandle")) is not None:
        yield str(handle)


def _rules(inputs: Any) -> Facts:
    groups = _items(inputs, "spec.groups")
    yield plural(sum(len(_items(group, "rules")) for group in groups), "rule")


def _quota(inputs: Any) -> Facts:
    for name, amount in _map(inputs, "spec.hard").items():
        yield f"{name.removeprefix('requests.').removeprefix('limits.')} {amount}"


def _network_policy(inputs: Any) -> Facts:
    types = _items(inputs, "spec.policyTypes")
    ingress, egress = _items(inputs, "spec.ingress"), _items(inputs, "spec.egress")
    if types and not ingress and not egress:
        yield "denies all " + " and ".join(str(type_).lower() for type_ in types)
    for direction, rules in (("from", ingress), ("to", egress)):
        ports = _ports([port for rule in rules for port in _items(rule, "ports")])
        if rules:
            yield f"{plural(len(rules), 'rule')} {direction} others" + (f", port {ports}" if ports else "")


def _disruption_budget(inputs: Any) -> Facts:
    for key in ("maxUnavailable", "minAvailable"):
        if (value := at(inputs, f"spec.{key}")) is not None:
            yield f"{key} {value}"


def _namespace(inputs: Any) -> Facts:
    if level := _map(inputs, "metadata.labels").get("pod-security.kubernetes.io/enforce"):
        yield f"pod security: {level}"


def _config_map(inputs: Any) -> Facts:
    if not isinstance(data := at(inputs, "data"), Mapping):
        return
    if isinstance(run := data.get("run.json"), str):
        yield from _benchmark_run(run)
    yield ", ".join(sorted(data)) if len(data) <= _MOST_KEYS else f"{len(data)} files"


_MOST_KEYS = 6
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


def _gateway(inputs: Any) -> Facts:
    if (name := at(inputs, "spec.gatewayClassName")) is not None:
        yield str(name)
    yield f"port {_ports(_items(inputs, 'spec.listeners'))}"


def _route(inputs: Any) -> Facts:
    backends = [one for rule in _items(inputs, "spec.rules") for one in _items(rule, "backendRefs")]
    if len(backends) > 1:
        yield ", ".join(f"{at(one, 'weight')} % of requests to {at(one, 'name')}" for one in backends)


def _backend_policy(inputs: Any) -> Facts:
    if (seconds := at(inputs, "spec.default.timeoutSec")) is not None:
        yield f"{seconds} s timeout"


def _release(inputs: Any) -> Facts:
    chart = str(at(inputs, "chart") or "").rpartition("/")[2]
    yield f"chart {chart} {at(inputs, 'version') or ''}".strip()
    cpu = at(inputs, "values.inferenceExtension.resources.requests.cpu")
    if cpu is not None:
        yield f"endpoint picker {cpu} CPU"


def _pool(inputs: Any) -> Facts:
    ports = [at(port, "number") for port in _items(inputs, "spec.targetPorts")]
    yield f"port{'s' if len(ports) > 1 else ''} {', '.join(map(str, ports))}"
    yield f"picker {at(inputs, 'spec.endpointPickerRef.name')}"


def _pod_monitoring(inputs: Any) -> Facts:
    for endpoint in _items(inputs, "spec.endpoints"):
        yield f"{at(endpoint, 'port')} every {at(endpoint, 'interval')}"


def _compute_class(inputs: Any) -> Facts:
    rungs = []
    for rung in _items(inputs, "spec.priorities"):
        if at(rung, "reservations") is not None:
            rungs.append("reservation")
        elif at(rung, "flexStart") is not None:
            rungs.append("flex-start")
        elif at(rung, "spot"):
            rungs.append("spot")
    if rungs:
        yield ", then ".join(rungs)


def _api(inputs: Any) -> Facts:
    if (service := at(inputs, "service")) is not None:
        yield str(service).removesuffix(".googleapis.com")


def _subnetwork(inputs: Any) -> Facts:
    if (cidr := at(inputs, "ipCidrRange")) is not None:
        yield str(cidr)
    for one in _items(inputs, "secondaryIpRanges"):
        yield f"{at(one, 'rangeName')} {at(one, 'ipCidrRange')}"
    if at(inputs, "purpose") == "REGIONAL_MANAGED_PROXY":
        yield "proxies only"


def _nat(inputs: Any) -> Facts:
    low, high = at(inputs, "minPortsPerVm"), at(inputs, "maxPortsPerVm")
    if low is not None:
        yield f"{low} to {high} ports per node" if high is not None else f"{low} ports per node"


def _firewall(inputs: Any) -> Facts:
    sources = ", ".join(map(str, _items(inputs, "sourceRanges")))
    ports = ", ".join(str(port) for rule in _items(inputs, "allows") for port in _items(rule, "ports"))
    yield " ".join(part for part in (f"from {sources}" if sources else "", f"port {ports}" if ports else "") if part)


def _cluster(inputs: Any) -> Facts:
    if at(inputs, "enableAutopilot"):
        yield "Autopilot"
    for path in ("location", "releaseChannel.channel"):
        if (found := at(inputs, path)) is not None:
            yield str(found)
    if at(inputs, "privateClusterConfig.enablePrivateNodes"):
        yield "private nodes"
    if at(inputs, "deletionProtection") is False:
        yield "no deletion protection"


def _member(inputs: Any) -> Facts:
    role = str(at(inputs, "role") or "").removeprefix("roles/")
    if role:
        yield role


def _repository(inputs: Any) -> Facts:
    for path in ("format", "mode"):
        if (found := at(inputs, path)) is not None:
            yield str(found).lower().removesuffix("_repository")


def _bucket(inputs: Any) -> Facts:
    if (location := at(inputs, "location")) is not None:
        yield str(location).lower()
    if (days := at(inputs, "lifecycleRules.0.condition.age")) is not None:
        yield f"objects deleted after {days} days"


def _budget(inputs: Any) -> Facts:
    if (units := at(inputs, "amount.specifiedAmount.units")) is not None:
        yield f"${int(units):,} a month"


_FACTS: Mapping[str, Callable[[Any], Facts]] = {
    "Deployment": _deployment,
    "Job": _job,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "StorageClass": _storage_class,
    "VolumeSnapshotClass": _snapshot_class,
    "VolumeSnapshotContent": _snapshot_content,
    "Rules": _rules,
    "ResourceQuota": _quota,
    "NetworkPolicy": _network_policy,
    "PodDisruptionBudget": _disruption_budget,
    "Namespace": _namespace,
    "ConfigMap": _config_map,
    "Gateway": _gateway,
    "HTTPRoute": _route,
    "GCPBackendPolicy": _backend_policy,
    "Release": _release,
    "InferencePool": _pool,
    "PodMonitoring": _pod_monitoring,
    "ComputeClass": _compute_class,
    "projects.Service": _api,
    "compute.Subnetwork": _subnetwork,
    "compute.RouterNat": _nat,
    "compute.Firewall": _firewall,
    "container.Cluster": _cluster,
    "projects.IAMMember": _member,
    "serviceaccount.IAMMember": _member,
    "storage.BucketIAMMember": _member,
    "artifactregistry.RepositoryIamMember": _member,
    "secretmanager.SecretIamMember": _member,
    "artifactregistry.Repository": _repository,
    "storage.Bucket": _bucket,
    "billing.Budget": _budget,
}
