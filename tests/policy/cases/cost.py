"""Cases of what costs money."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from facts.names import BATCH_MAX_USD
from fleet.preview.record.values import transform
from scalers import POD_COUNT
from tests.policy.case import (
    DEPLOYMENT,
    HERE,
    POD,
    QUOTA,
    SCALER,
    Edit,
    Props,
    Resources,
    Rule,
    change,
    drop,
    get,
    new,
    put,
    set_at,
    twin,
)

_GPUS = "requests.nvidia.com/gpu"


def _replicas(count: int) -> Edit:
    return put(DEPLOYMENT, "spec.replicas", value=count)


def _quota(gpus: int) -> Edit:
    return put(QUOTA, "spec.hard", _GPUS, value=str(gpus))


def _relabelled(resources: Resources) -> None:
    """Production under another name, in every label."""
    for name, one in tuple(resources.items()):
        changed = {
            "inputs": transform(dict(one.inputs), _renamed),
            "outputs": transform(dict(one.outputs), _renamed),
        }
        resources[name] = replace(one, **changed)


def _renamed(leaf: Any) -> Any:
    return leaf.replace("production", "internal") if isinstance(leaf, str) else leaf


def _environment(name: str, kind: str = DEPLOYMENT, label: str = "environment") -> Edit:
    return put(kind, f"metadata.labels.{label}", value=name)


def _job(*words: str, parallelism: int = 2) -> Edit:
    template = {"spec": {"containers": [{"name": "clients", "image": "x:1", "command": list(words)}]}}
    spec = {"parallelism": parallelism, "template": template}
    return new("load", "kubernetes:batch/v1:Job", {"metadata": {"name": "load", "namespace": HERE}, "spec": spec})


_BENCH = _job("vllm", "bench", "serve", "--model=m")
_B200 = {"cloud.google.com/gke-accelerator": "nvidia-b200"}


def _without_price(props: Props) -> None:
    set_at(props, f"{POD}.nodeSelector", value={**_B200, "cloud.google.com/gke-flex-start": "true"})


def _in_class(*priorities: dict[str, Any]) -> tuple[Edit, Edit]:
    """A ComputeClass with these priorities, and the servers on it."""
    made = {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": "b200"},
        "spec": {"priorities": list(priorities)},
    }
    return (
        new("class-by-hand", "kubernetes:cloud.google.com/v1:ComputeClass", made),
        put(DEPLOYMENT, f"{POD}.nodeSelector", value={"cloud.google.com/compute-class": "b200"}),
    )


def _pauses(props: Props) -> None:
    words = get(props, f"{POD}.containers.0.command")
    words[:] = [word.replace('"then": "warn"', '"then": "pause"') for word in words]


_CEILING = Rule("hourly-cost-above-ceiling")
_ABOVE_PLAN = Rule("gpu-quota-above-plan", stack="spot")
_BENCHMARK = Rule("benchmark-in-production")
_BATCH = Rule("batch-without-ceiling", stack="batch")

CASES = (
    _CEILING.broken("a zero too many", _replicas(120), stack="spot", maxUsdPerHour=400),
    _CEILING.broken("reserved nodes", _replicas(13), stack="cud", maxUsdPerHour=1_100, usdPerNodeHour=88.93),
    _CEILING.broken("a price of one's own", _replicas(13), stack="spot", maxUsdPerHour=1_200.0, usdPerNodeHour=100.0),
    _CEILING.broken("no published price", change(DEPLOYMENT, _without_price), maxUsdPerHour=40.0),
    _CEILING.broken(
        "a class of Spot alone",
        *_in_class({"machineType": "a4-highgpu-8g", "spot": True}),
        _replicas(2),
        maxUsdPerHour=40.0,
    ),
    _CEILING.broken(
        "a class of flex-start and Spot",
        *_in_class(
            {"machineType": "a4-highgpu-8g", "flexStart": {"enabled": True}},
            {"machineType": "a4-highgpu-8g", "spot": True},
        ),
        maxUsdPerHour=40.0,
    ),
    _CEILING.broken(
        "a paused fleet and one without a price beside it",
        _replicas(13),
        twin("unpriced", DEPLOYMENT, _without_price),
        twin("paused", "Deployment/server-deployment", lambda props: set_at(props, "spec.replicas", value=0)),
        stack="spot",
        maxUsdPerHour=400,
    ),
    _CEILING.broken(
        "nodes and all that is beside them, each above it",
        _replicas(2),
        change("vllm-fleet-smoke", lambda props: props.update(usdPerHour=2.35)),
        stack="smoke",
        maxUsdPerHour=2.0,
    ),
    _CEILING.broken("by less than a cent", _replicas(13), stack="spot", maxUsdPerHour=1_299.999, usdPerNodeHour=100.0),
    _CEILING.sound("no ceiling", _replicas(1_000)),
    _ABOVE_PLAN.broken("replicas taken away, their quota left", _replicas(2)),
    _ABOVE_PLAN.broken("a node's GPUs more", _quota(104)),
    _ABOVE_PLAN.broken(
        "a node's GPUs more, by limits", put(QUOTA, "spec.hard", value={"limits.nvidia.com/gpu": "104"})
    ),
    _ABOVE_PLAN.sound("less than the plan", _quota(8)),
    _ABOVE_PLAN.sound("no GPUs counted", put(QUOTA, "spec.hard", value={"pods": "10"}), stack="dev"),
    _ABOVE_PLAN.sound("replicas of another owner", _quota(960), drop(DEPLOYMENT, "spec.replicas"), stack="dev"),
    _ABOVE_PLAN.sound("another namespace's", _quota(960), put(QUOTA, "metadata.namespace", value="other"), stack="dev"),
    _ABOVE_PLAN.sound("room for an autoscaler", _quota(104), spareGpus=8.0),
    _BENCHMARK.broken(
        "a fleet that went into production with its benchmark", _environment("production"), stack="gateway"
    ),
    _BENCHMARK.broken(
        "the labels of the Google provider say it",
        put("google", "defaultLabels", value='{"environment": "production"}'),
        stack="gateway",
    ),
    _BENCHMARK.broken("the stack's name says it", _relabelled, _BENCH, stack="prod"),
    *(
        _BENCHMARK.broken(" ".join(words), _job(*words), stack="cud")
        for words in (
            ("python3", "-m", "pod_scripts.launch_clients"),
            ("python", "benchmark_serving.py"),
            ("guidellm", "benchmark"),
            ("sh", "-c", "vllm bench serve --model m"),
        )
    ),
    _BENCHMARK.sound("a stopped Job", _job("guidellm", parallelism=0), stack="cud"),
    _BATCH.broken("no amount", drop(SCALER, "metadata.annotations")),
    _BATCH.broken("an amount that is none", put(SCALER, "metadata.annotations", BATCH_MAX_USD, value="much")),
    _BATCH.broken("a hundred servers", drop(SCALER, "spec.maxReplicaCount")),
    _BATCH.sound("more servers", put(SCALER, "spec.maxReplicaCount", value=8.0)),
    _BATCH.sound(
        "a spending guard that pauses",
        put(SCALER, "spec.triggers.0.type", value=POD_COUNT),
        change("Deployment/spending", _pauses),
        stack="prod",
    ),
)
