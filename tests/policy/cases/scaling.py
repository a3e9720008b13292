"""Autoscalers that drop a fleet, or ask for what is not there."""

from __future__ import annotations

from tests.policy.case import (
    DEPLOYMENT,
    QUOTA,
    SCALER,
    Rule,
    drop,
    options,
    put,
)

_PAUSED = "autoscaling.keda.sh/paused-replicas"
_LOAD = "spec.triggers.0"

_ZERO = Rule("scaler-zero-on-silence", stack="prod")
_FALLBACK = Rule("scaler-without-fallback", stack="prod")
_BESIDE = Rule("replicas-beside-scaler", stack="prod")
_ABOVE_QUOTA = Rule("scaler-above-quota", stack="prod")

CASES = (
    _ZERO.broken(
        "zero, and KEDA's own word for silence",
        put(SCALER, "spec.minReplicaCount", value=0),
        drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
    ),
    _ZERO.broken("KEDA's own minimum", drop(SCALER, "spec.minReplicaCount")),
    _ZERO.broken(
        "zero when idle",
        put(SCALER, "spec.idleReplicaCount", value=0),
        drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
    ),
    _ZERO.sound("zero by the clock", put(SCALER, "spec.minReplicaCount", value=0)),
    _ZERO.sound("never zero", drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues")),
    _ZERO.sound(
        "pods are counted, and an error is no count",
        put(SCALER, "spec.minReplicaCount", value=0),
        put(
            SCALER, _LOAD, value={"type": "kubernetes-workload", "metadata": {"podSelector": "app=batch", "value": "1"}}
        ),
    ),
    _FALLBACK.broken("none, written manually", drop(SCALER, "spec.fallback")),
    _FALLBACK.broken("KEDA's own static one", drop(SCALER, "spec.fallback.behavior")),
    _FALLBACK.broken("one at a minimum of zero", put(SCALER, "spec.minReplicaCount", value=0)),
    _FALLBACK.broken("no number", drop(SCALER, "spec.fallback.replicas")),
    _FALLBACK.sound("as many as there are", put(SCALER, "spec.fallback.behavior", value="currentReplicas")),
    _BESIDE.broken(
        "a number that is not ignored",
        put(DEPLOYMENT, "spec.replicas", value=2),
        options(DEPLOYMENT, ignore_changes=()),
    ),
    _BESIDE.sound("the number of a cluster, which is ignored", put(DEPLOYMENT, "spec.replicas", value=2)),
    _ABOVE_QUOTA.broken("nine servers", put(SCALER, "spec.maxReplicaCount", value=9)),
    _ABOVE_QUOTA.broken("KEDA's own hundred", drop(SCALER, "spec.maxReplicaCount")),
    _ABOVE_QUOTA.broken(
        "paused above it",
        put(QUOTA, "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(SCALER, "metadata.annotations", _PAUSED, value="2"),
    ),
    _ABOVE_QUOTA.sound(
        "paused at 0",
        put(QUOTA, "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(SCALER, "metadata.annotations", _PAUSED, value="0"),
    ),
    _ABOVE_QUOTA.sound("fewer", put(SCALER, "spec.maxReplicaCount", value=2)),
)
