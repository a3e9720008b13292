"""Autoscalers that drop a fleet, or ask for what is not there."""

from __future__ import annotations

from tests.policy.case import (
    DEPLOYMENT,
    QUOTA,
    SCALER,
    broken,
    drop,
    options,
    put,
    sound,
)

_PAUSED = "autoscaling.keda.sh/paused-replicas"
_LOAD = "spec.triggers.0"

CASES = (
    broken(
        "scaler-zero-on-silence",
        "zero, and KEDA's own word for silence",
        put(SCALER, "spec.minReplicaCount", value=0),
        drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
        stack="prod",
    ),
    broken("scaler-zero-on-silence", "KEDA's own minimum", drop(SCALER, "spec.minReplicaCount"), stack="prod"),
    broken(
        "scaler-zero-on-silence",
        "zero when idle",
        put(SCALER, "spec.idleReplicaCount", value=0),
        drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues"),
        stack="prod",
    ),
    sound("scaler-zero-on-silence", "zero by the clock", put(SCALER, "spec.minReplicaCount", value=0), stack="prod"),
    sound("scaler-zero-on-silence", "never zero", drop(SCALER, f"{_LOAD}.metadata.ignoreNullValues"), stack="prod"),
    sound(
        "scaler-zero-on-silence",
        "pods are counted, and an error is no count",
        put(SCALER, "spec.minReplicaCount", value=0),
        put(
            SCALER,
            _LOAD,
            value={"type": "kubernetes-workload", "metadata": {"podSelector": "app=batch", "value": "1"}},
        ),
        stack="prod",
    ),
    broken("scaler-without-fallback", "none, written manually", drop(SCALER, "spec.fallback"), stack="prod"),
    broken(
        "scaler-without-fallback",
        "KEDA's own static one",
        drop(SCALER, "spec.fallback.behavior"),
        stack="prod",
    ),
    broken(
        "scaler-without-fallback",
        "one at a minimum of zero",
        put(SCALER, "spec.minReplicaCount", value=0),
        stack="prod",
    ),
    broken("scaler-without-fallback", "no number", drop(SCALER, "spec.fallback.replicas"), stack="prod"),
    sound(
        "scaler-without-fallback",
        "as many as there are",
        put(SCALER, "spec.fallback.behavior", value="currentReplicas"),
        stack="prod",
    ),
    broken(
        "replicas-beside-scaler",
        "a number that is not ignored",
        put(DEPLOYMENT, "spec.replicas", value=2),
        options(DEPLOYMENT, ignore_changes=()),
        stack="prod",
    ),
    sound(
        "replicas-beside-scaler",
        "the number of a cluster, which is ignored",
        put(DEPLOYMENT, "spec.replicas", value=2),
        stack="prod",
    ),
    broken(
        "scaler-above-quota",
        "nine servers",
        put(SCALER, "spec.maxReplicaCount", value=9),
        stack="prod",
    ),
    broken("scaler-above-quota", "KEDA's own hundred", drop(SCALER, "spec.maxReplicaCount"), stack="prod"),
    broken(
        "scaler-above-quota",
        "paused above it",
        put(QUOTA, "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(SCALER, "metadata.annotations", _PAUSED, value="2"),
        stack="prod",
    ),
    sound(
        "scaler-above-quota",
        "paused at 0",
        put(QUOTA, "spec.hard", "requests.nvidia.com/gpu", value="0"),
        put(SCALER, "metadata.annotations", _PAUSED, value="0"),
        stack="prod",
    ),
    sound("scaler-above-quota", "fewer", put(SCALER, "spec.maxReplicaCount", value=2), stack="prod"),
)
