"""Mutants of how replicas start, stop and are replaced."""

from __future__ import annotations

from typing import Any

from tests.policy.mutant import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Patch,
    delete,
    drop,
    of_program,
    of_resource,
    put,
    result,
    returning,
    set_at,
)

_BUDGET = "server-disruption-budget"
_ROLLING = "spec.strategy.rollingUpdate"


def _deployment(path: str, value: Any) -> Patch:
    """Another Deployment from the program."""
    return result("workloads.server.server.deployment_spec", lambda spec: set_at(spec, path, value=value))


def _budget(**spec: Any) -> Patch:
    return result("workloads.server.server.disruption_budget", lambda made: made.update(spec))


def _probe(path: str, value: Any) -> Patch:
    return result("workloads.server.pod.probes", lambda probes: set_at(probes, path, value=value))


MUTANTS = (
    of_program(
        "surge-on-whole-node-pods", "one pod more", _deployment("strategy.rolling_update.max_surge", 1), stack="guest"
    ),
    of_resource(
        "surge-on-whole-node-pods", "Kubernetes' own quarter", drop(DEPLOYMENT, f"{_ROLLING}.maxSurge"), stack="cud"
    ),
    of_resource("surge-on-whole-node-pods", "no strategy at all", drop(DEPLOYMENT, "spec.strategy"), stack="gateway"),
    of_program("recreate-on-many-replicas", "Recreate", _deployment("strategy", {"type": "Recreate"}), stack="spot"),
    of_resource(
        "recreate-on-many-replicas",
        "Recreate, by hand",
        put(DEPLOYMENT, "spec.strategy", value={"type": "Recreate"}),
        stack="cud",
    ),
    of_program(
        "rollout-stops-too-many", "half", _deployment("strategy.rolling_update.max_unavailable", "50%"), stack="spot"
    ),
    of_resource(
        "rollout-stops-too-many", "six of twelve", put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value=6), stack="cud"
    ),
    of_program(
        "no-disruption-budget",
        "a budget for other pods",
        _budget(selector={"match_labels": {"app": "another-server"}}),
        stack="spot",
    ),
    of_resource("no-disruption-budget", "the budget deleted", delete(_BUDGET), stack="gateway"),
    of_resource(
        "no-disruption-budget",
        "a budget that lets all go",
        put(_BUDGET, "spec.maxUnavailable", value="100%"),
        stack="cud",
    ),
    of_program("disruption-budget-blocks", "a budget of none", _budget(max_unavailable=0), stack="guest"),
    of_resource(
        "disruption-budget-blocks",
        "all twelve must stay",
        put(_BUDGET, "spec.minAvailable", value="100%"),
        drop(_BUDGET, "spec.maxUnavailable"),
        stack="spot",
    ),
    of_program(
        "grace-below-drain",
        "five minutes of drain in a grace of 15 seconds",
        settings={"server": {"engine": {"apiServerCount": 1, "shutdownTimeoutSeconds": 300}}},
    ),
    of_resource(
        "grace-below-drain",
        "half a minute for a sleep of two",
        put(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds", value=30),
        stack="cud",
    ),
    of_resource(
        "grace-below-drain",
        "a minute of sleep in a shell, on Spot",
        put(DEPLOYMENT, f"{CONTAINER}.lifecycle", value={"preStop": {"exec": {"command": ["sh", "-c", "sleep 1m"]}}}),
        stack="spot",
    ),
    of_program(
        "stops-before-endpoints-go",
        "no sleep before the stop signal",
        result("workloads.server.pod.container", lambda container: container.pop("lifecycle") and None),
        stack="spot",
    ),
    of_resource(
        "stops-before-endpoints-go", "the hook removed", drop(DEPLOYMENT, f"{CONTAINER}.lifecycle.preStop"), stack="cud"
    ),
    of_program("probe-shorter-than-loading", "five minutes", settings={"server": {"startupMinutes": 5}}, stack="guest"),
    of_resource(
        "probe-shorter-than-loading",
        "the liveness probe alone",
        drop(DEPLOYMENT, f"{CONTAINER}.startupProbe"),
        stack="guest",
    ),
    of_program(
        "probe-thresholds-inverted",
        "killed at the first miss",
        _probe("liveness.failure_threshold", 1),
        stack="guest",
    ),
    of_resource(
        "probe-thresholds-inverted",
        "taken out after five minutes, killed after two",
        put(DEPLOYMENT, f"{CONTAINER}.readinessProbe.failureThreshold", value=30),
        stack="spot",
    ),
    of_program("probe-timeout-hasty", "one second", _probe("readiness.timeout_seconds", 1), stack="guest"),
    of_resource(
        "probe-timeout-hasty",
        "the default of a second",
        drop(DEPLOYMENT, f"{CONTAINER}.livenessProbe.timeoutSeconds"),
        stack="cud",
    ),
    of_program(
        "progress-deadline-below-start",
        "ten minutes",
        returning("workloads.server.server.progress_deadline_seconds", 600),
        stack="guest",
    ),
    of_resource(
        "progress-deadline-below-start",
        "Kubernetes' own ten minutes",
        drop(DEPLOYMENT, "spec.progressDeadlineSeconds"),
        stack="gateway",
    ),
)
