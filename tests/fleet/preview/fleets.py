"""A small fleet, made of recorded resources by hand, that the tests of comparisons change in one place at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.preview.compare.changes import Changes, ResourceChange
from fleet.preview.compare.compare import compare
from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.values import UNKNOWN, Secret
from tests.fleet.preview.sample_report import PROJECT, STACK, resource

ROOT = resource("pulumi:pulumi:Stack", f"{PROJECT}-{STACK}")
CLUSTER = resource(
    "gcp:container/cluster:Cluster",
    "cluster",
    ROOT,
    inputs={
        "name": "vllm",
        "location": "europe-west4",
        "deletionProtection": True,
        "releaseChannel": {"channel": "RAPID"},
    },
    protect=True,
)
PROVIDER = resource(
    "pulumi:providers:kubernetes",
    "kubernetes",
    ROOT,
    inputs={"kubeconfig": Secret(UNKNOWN)},
    property_dependencies={"kubeconfig": (CLUSTER.urn,)},
    dependencies=(CLUSTER.urn,),
)
ON_CLUSTER = f"{PROVIDER.urn}::[unknown]"
NAMESPACE = resource(
    "kubernetes:core/v1:Namespace", "namespace", ROOT, inputs={"metadata": {"name": "vllm"}}, provider=ON_CLUSTER
)
WEIGHTS = resource(
    "kubernetes:core/v1:PersistentVolumeClaim",
    "weights",
    ROOT,
    inputs={
        "metadata": {"name": "weights-a", "namespace": "vllm"},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "64Gi"}}},
    },
    provider=ON_CLUSTER,
)
SCRIPT = resource(
    "kubernetes:core/v1:ConfigMap",
    "script",
    ROOT,
    inputs={"metadata": {"name": "script", "namespace": "vllm"}, "data": {"run.sh": "true\n"}},
    provider=ON_CLUSTER,
)
SERVER = resource(
    "kubernetes:apps/v1:Deployment",
    "server",
    ROOT,
    inputs={
        "metadata": {"name": "qwen35-server", "namespace": "vllm"},
        "spec": {
            "replicas": 12,
            "selector": {"matchLabels": {"app": "qwen35-server"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "spec": {
                    "nodeSelector": {"cloud.google.com/gke-spot": "true"},
                    "containers": [
                        {"name": "vllm", "image": "vllm:1", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
                    ],
                }
            },
        },
    },
    provider=ON_CLUSTER,
)
ALL = (ROOT, CLUSTER, PROVIDER, NAMESPACE, WEIGHTS, SCRIPT, SERVER)


def recording(*changed: RecordedResource, without: tuple[str, ...] = (), **fields: Any) -> Recording:
    """The fleet, with these in place of the resources of their names, and others added at the end."""
    given = {one.name: one for one in changed}
    kept = [given.pop(one.name, one) for one in ALL if one.name not in without]
    values: dict[str, Any] = {"outputs": {"usdPerHour": 391.32, "usdPerHourIsAtLeast": True}, "diagnostics": ()}
    return Recording(
        project=PROJECT, stack=STACK, mode="preview", resources=(*kept, *given.values()), **(values | fields)
    )


def edited(one: RecordedResource, path: str, value: Any, **fields: Any) -> RecordedResource:
    """The resource with another value at a path of its inputs; None takes it away."""
    return replace(one, inputs=_edited(one.inputs, path.split("/"), value), **fields)


def _edited(value: Any, path: list[str], new: Any) -> Any:
    step, *rest = path
    if isinstance(value, list):
        return [_edited(item, rest, new) if str(index) == step else item for index, item in enumerate(value)]
    inner = _edited(value.get(step, {}), rest, new) if rest else new
    return {key: item for key, item in {**value, step: inner}.items() if item is not None}


def changes_of(*changed: RecordedResource, without: tuple[str, ...] = (), **fields: Any) -> Changes:
    """The fleet as it is against the fleet with these changes."""
    return compare(recording(), recording(*changed, without=without, **fields), against="main")


def one_of(changes: Changes, name: str) -> ResourceChange:
    """What becomes of the resource of that name."""
    [found] = [one for one in changes.resources if one.name == name]
    return found
