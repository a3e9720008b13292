"""Autoscalers that drop a fleet, ask for what is not there, or fight over the number of servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.policy.case import (
    DEPLOYMENT,
    Patch,
    Props,
    Resources,
    arguments,
    change,
    drop,
    of_program,
    of_resource,
    put,
    result,
    returning,
    sound,
)

_SCALER = "autoscaling-scaled-object"
_LOAD = "spec.triggers.0"
_DOWN = "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown"
_WAITING = 'sum(vllm:num_requests_waiting{app="qwen35-server"})'


def _with_a_number(given: Props) -> None:
    given["spec"]["replicas"] = 2
    given["opts"].ignore_changes = None


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


def _twice(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(name: str, **given: Any) -> Any:
        if given["kind"] == "ScaledObject":
            real(f"{name}-2", **given | {"metadata": {**given["metadata"], "name": "by-hand"}})
        return real(name, **given)

    return call


def _without(*keys: str) -> Callable[[Any], None]:
    def cut(made: Any) -> None:
        for key in keys[:-1]:
            made = made[key]
        del made[keys[-1]]

    return cut


def _waiting(props: Any) -> None:
    props["spec"]["triggers"][0]["metadata"]["query"] = _WAITING


CASES = (
    of_program(
        "scaler-zero-on-silence",
        "no answer is no load",
        result("workloads.autoscaling.load_trigger", _without("metadata", "ignoreNullValues")),
        stack="prod",
        settings={"server": {"scaling": {"min": 0}}},
    ),
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
    of_program(
        "scaler-by-queue-alone",
        "the queue",
        returning("workloads.autoscaling.in_flight", _WAITING),
        stack="prod",
    ),
    of_resource("scaler-by-queue-alone", "the queue, written manually", change(_SCALER, _waiting), stack="prod"),
    of_program(
        "scaler-without-fallback",
        "none",
        result("workloads.autoscaling.scaled_object_spec", _without("fallback")),
        stack="prod",
    ),
    of_resource("scaler-without-fallback", "none, written manually", drop(_SCALER, "spec.fallback"), stack="prod"),
    of_resource(
        "scaler-without-fallback",
        "KEDA's own static one",
        drop(_SCALER, "spec.fallback.behavior"),
        stack="prod",
        says="static",
    ),
    of_resource(
        "scaler-without-fallback",
        "one at a minimum of zero",
        put(_SCALER, "spec.minReplicaCount", value=0),
        stack="prod",
        says="minReplicaCount 0",
    ),
    of_resource("scaler-without-fallback", "no number", drop(_SCALER, "spec.fallback.replicas"), stack="prod"),
    sound(
        "scaler-without-fallback",
        "as many as there are",
        put(_SCALER, "spec.fallback.behavior", value="currentReplicas"),
        stack="prod",
    ),
    of_program(
        "replicas-beside-scaler",
        "a number in the program",
        arguments("workloads.server.server.k8s.apps.v1.Deployment", _with_a_number),
        stack="prod",
    ),
    of_resource("replicas-beside-scaler", "a number", _numbered, stack="prod", says="is 2"),
    sound(
        "replicas-beside-scaler",
        "the number of a cluster, which is ignored",
        put(DEPLOYMENT, "spec.replicas", value=2),
        stack="prod",
    ),
    of_program(
        "scaler-above-quota",
        "a quota for two servers",
        returning("workloads.namespace.gpu_quota", {"hard": {"requests.nvidia.com/gpu": "16"}}),
        stack="prod",
    ),
    of_resource(
        "scaler-above-quota",
        "nine servers",
        put(_SCALER, "spec.maxReplicaCount", value=9),
        stack="prod",
        says=("9 x 8", "allows 64"),
    ),
    of_resource(
        "scaler-above-quota", "KEDA's own hundred", drop(_SCALER, "spec.maxReplicaCount"), stack="prod", says="100 x 8"
    ),
    of_program(
        "two-scalers",
        "a second one",
        Patch(target="workloads.autoscaling.k8s.apiextensions.CustomResource", stand_in=_twice),
        stack="prod",
    ),
    of_resource("two-scalers", "one manually", _second, stack="prod", says="by-hand"),
    of_program(
        "scaler-down-hasty", "as Kubernetes does", returning("workloads.autoscaling.behavior", {}), stack="prod"
    ),
    of_resource(
        "scaler-down-hasty",
        "five minutes",
        put(_SCALER, f"{_DOWN}.stabilizationWindowSeconds", value=300),
        stack="prod",
        says="after 300 s",
    ),
    of_resource("scaler-down-hasty", "any number at once", drop(_SCALER, f"{_DOWN}.policies"), stack="prod"),
    of_resource("scaler-down-hasty", "four at once", put(_SCALER, f"{_DOWN}.policies.0.value", value=4), stack="prod"),
    of_resource(
        "scaler-down-hasty", "one a minute", put(_SCALER, f"{_DOWN}.policies.0.periodSeconds", value=60), stack="prod"
    ),
)
