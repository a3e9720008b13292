"""Plausible outputs of Kubernetes objects and Helm releases: metadata as a server fills it in, and a healthy status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fleet.preview.record.values import UNKNOWN, Secret, Value

RELEASE_TYPE: Final = "kubernetes:helm.sh/v3:Release"

CLUSTER_SCOPED: Final = frozenset(
    {
        "APIService",
        "CSIDriver",
        "ClusterPodMonitoring",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComputeClass",
        "CustomResourceDefinition",
        "FlowSchema",
        "GatewayClass",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeSnapshotClass",
        "VolumeSnapshotContent",
    }
)
"""Kinds without a namespace. Source: Kubernetes 1.36 API reference, GKE's ComputeClass and managed Prometheus CRDs."""

_Object = Mapping[str, Any]


def kubernetes_outputs(
    type_: str, name: str, inputs: _Object, *, uid: str, address: str, suffix: str
) -> tuple[str, dict[str, Any]]:
    """The id (`namespace/name`) of an object and what a server adds to it."""
    if type_ == RELEASE_TYPE:
        return _release(name, inputs, suffix)
    kind = type_.rpartition(":")[2]
    given = _map(inputs.get("metadata"))
    metadata: dict[str, Any] = {"uid": uid, "generation": 1, "resourceVersion": "1"}
    # Without a name the provider invents one: the resource's own and eight random characters.
    metadata["name"] = given.get("name", f"{name}-{suffix}")
    if kind not in CLUSTER_SCOPED:
        metadata["namespace"] = given.get("namespace", "default")
    parts = [metadata["namespace"], metadata["name"]] if "namespace" in metadata else [metadata["name"]]
    id_ = "/".join(parts) if all(isinstance(part, str) for part in parts) else ""
    outputs: dict[str, Any] = {"metadata": metadata}
    if kind in _FILL:
        outputs |= _FILL[kind](inputs, uid, address)
    return id_, outputs


def _map(value: Value) -> Mapping[str, Any]:
    value = value.value if isinstance(value, Secret) else value
    return value if isinstance(value, Mapping) else {}


def _release(name: str, inputs: _Object, suffix: str) -> tuple[str, dict[str, Any]]:
    release = inputs.get("name", f"{name}-{suffix}")
    namespace = inputs.get("namespace", "default")
    known = isinstance(release, str) and isinstance(namespace, str)
    status = {
        "name": release,
        "namespace": namespace,
        "chart": inputs.get("chart", UNKNOWN),
        "version": inputs.get("version", UNKNOWN),
        "revision": 1,
        "status": "deployed",
    }
    return (f"{namespace}/{release}" if known else ""), {"name": release, "namespace": namespace, "status": status}


def _replicated(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    replicas = _map(inputs.get("spec")).get("replicas", 1)
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), replicas)
    return {"status": {**counts, "observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}}


def _job(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    completions = _map(inputs.get("spec")).get("completions", 1)
    return {"status": {"succeeded": completions, "conditions": [{"type": "Complete", "status": "True"}]}}


def _service(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    spec = _map(inputs.get("spec"))
    # 198.51.100.0/24 is reserved for documentation (RFC 5737).
    cluster_ip = spec.get("clusterIP", "198.51.100." + address.rpartition(".")[2])
    balanced = spec.get("type") == "LoadBalancer"
    balancer = {"ingress": [{"ip": address}]} if balanced else {}
    return {"spec": {"clusterIP": cluster_ip}, "status": {"loadBalancer": balancer}}


def _claim(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    spec = _map(inputs.get("spec"))
    requests = _map(_map(spec.get("resources")).get("requests"))
    return {
        "spec": {"volumeName": spec.get("volumeName", f"pvc-{uid}")},
        "status": {
            "phase": "Bound",
            "accessModes": spec.get("accessModes", UNKNOWN),
            "capacity": {"storage": requests.get("storage", UNKNOWN)},
        },
    }


def _snapshot(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    return {"status": {"readyToUse": True, "boundVolumeSnapshotContentName": f"snapcontent-{uid}"}}


def _gateway(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    programmed = {"type": "Programmed", "status": "True"}
    return {"status": {"addresses": [{"type": "IPAddress", "value": address}], "conditions": [programmed]}}


def _active(inputs: _Object, uid: str, address: str) -> dict[str, Any]:  # noqa: ARG001
    return {"status": {"phase": "Active"}}


_FILL: Final[Mapping[str, Callable[[_Object, str, str], dict[str, Any]]]] = {
    "Deployment": _replicated,
    "Gateway": _gateway,
    "Job": _job,
    "Namespace": _active,
    "PersistentVolumeClaim": _claim,
    "Service": _service,
    "StatefulSet": _replicated,
    "VolumeSnapshot": _snapshot,
}
