"""Autoscalers that drop a fleet, ask for what is not there, or fight over the number of servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.policy.case import (
    DEPLOYMENT,
    Resources,
    append,
    change,
    drop,
    of_resource,
    put,
    sound,
)

_SCALER = "autoscaling-scaled-object"
_PAUSED = "autoscaling.keda.sh/paused-replicas"
_LOAD = "spec.triggers.0"
_DOWN = "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown"
_WAITING = 'sum(vllm:num_requests_waiting{app="qwen35-server"})'


def _numbered(resources: Resources) -> None:
    """A number that the program writes, and does not ignore."""
    put(DEPLOYMENT, "spec.replicas", value=2)(resources)
    resources[DEPLOYMENT] = replace(resources[DEPLOYMENT], ignore_changes=())


def _second(resources: Resources) -> None:
    """Another ScaledObject for the same servers."""
    one = resources[_SCALER]
    other = {"metadata": {**one.inputs["metadata"], "name": "by-hand"}}
    resources["by-hand"] = replace(
        one,
        name="by-hand",
        urn=f"{one.urn}-by-hand",
        inputs={**one.inputs, **other},
        outputs={**one.outputs, **other},
    )


def _waiting(props: Any) -> None:
    props["spec"]["triggers"][0]["metadata"]["query"] = _WAITING


CASES = (
    of_resource(
        "scaler-zero-on-silence",
        "zero, and KEDA's own word for silence",
        put(_SCALER, "spec.minReplicaCount", value=0),
        drop(_SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
        stack="prod",
    ),
    of_resource("scaler-zero-on-silence", "KEDA's own minimum", drop(_SCALER, "spec.minReplicaCount"), stack="prod"),
    of_resource(
        "scaler-zero-on-silence",
        "zero when idle",
        put(_SCALER, "spec.idleReplicaCount", value=0),
        drop(_SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
        stack="prod",
    ),
    sound("scaler-zero-on-silence", "zero by the clock", put(_SCALER, "spec.minReplicaCount", value=0), stack="prod"),
    sound("scaler-zero-on-silence", "never zero", drop(_SCALER, f"{_LOAD}.metadata.ignoreNullValues"), stack="prod"),
    sound(
        "scaler-zero-on-silence",
        "pods are counted, and an error is no count",
        put(_SCALER, "spec.minReplicaCount", value=0),
        put(
            _SCALER,
            _LOAD,
            value={"type": "kubernetes-workload", "metadata": {"podSelector": "app=batch", "value": "1"}},
        ),
        stack="prod",
    ),
    of_resource("scaler-by-queue-alone", "the queue, written manually", change(_SCALER, _waiting), stack="prod"),
    of_resource("scaler-without-fallback", "none, written manually", drop(_SCALER, "spec.fallback"), stack="prod"),
    of_resource(
        "scaler-without-fallback",
        "KEDA's own static one",
        drop(_SCALER, "spec.fallback.behavior"),
        stack="prod",
    ),
    of_resource(
        "scaler-without-fallback",
        "one at a minimum of zero",
        put(_SCALER, "spec.minReplicaCount", value=0),
        stack="prod",
    ),
    of_resource("scaler-without-fallback", "no number", drop(_SCALER, "spec.fallback.replicas"), stack="prod"),
    sound(
        "scaler-without-fallback",
        "as many as there are",
        put(_SCALER, "spec.fallback.behavior", value="currentReplicas"),
        stack="prod",
    ),
    of_resource("replicas-beside-scaler", "a number", _numbered, stack="prod"),
    sound(
        "replicas-beside-scaler",
        "the number of a cluster, which is ignored",
        put(DEPLOYMENT, "spec.replicas", value=2),
        stack="prod",
    ),
    of_resource(
        "scaler-above-quota",
        "nine servers",
        put(_SCALER, "spec.maxReplicaCount", value=9),
        stack="prod",
    ),
    of_resource("scaler-above-quota", "KEDA's own hundred", drop(_SCALER, "spec.maxReplicaCount"), stack="prod"),
    of_resource(
        "scaler-above-quota",
        "paused above it",
        put("namespace-gpu-quota", "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(_SCALER, "metadata.annotations", _PAUSED, value="2"),
        stack="prod",
    ),
    sound(
        "scaler-above-quota",
        "paused at 0",
        put("namespace-gpu-quota", "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(_SCALER, "metadata.annotations", _PAUSED, value="0"),
        stack="prod",
    ),
    of_resource("two-scalers", "one manually", _second, stack="prod"),
    of_resource(
        "scaler-down-hasty",
        "five minutes",
        put(_SCALER, f"{_DOWN}.stabilizationWindowSeconds", value=300),
        stack="prod",
    ),
    sound(
        "scaler-down-hasty",
        "pods that have ended ask for nothing again",
        put(_SCALER, f"{_DOWN}.stabilizationWindowSeconds", value=0),
        stack="batch",
    ),
    of_resource(
        "scaler-down-hasty",
        "windows beside the count of pods",
        append(_SCALER, "spec.triggers", {"type": "cron", "metadata": {"desiredReplicas": "2"}}),
        stack="batch",
    ),
    of_resource("scaler-down-hasty", "any number at once", drop(_SCALER, f"{_DOWN}.policies"), stack="prod"),
    of_resource("scaler-down-hasty", "four at once", put(_SCALER, f"{_DOWN}.policies.0.value", value=4), stack="prod"),
    of_resource(
        "scaler-down-hasty", "one a minute", put(_SCALER, f"{_DOWN}.policies.0.periodSeconds", value=60), stack="prod"
    ),
)
