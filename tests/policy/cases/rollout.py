"""Cases of how replicas start, stop and are replaced."""

from __future__ import annotations

from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    Edit,
    delete,
    drop,
    new,
    of_program,
    of_resource,
    options,
    put,
    sound,
)

_BUDGET = "server-disruption-budget"
_STRATEGY = "spec.strategy"
_ROLLING = f"{_STRATEGY}.rollingUpdate"
_RECREATE = put(DEPLOYMENT, _STRATEGY, value={"type": "Recreate"})
_EXTERNAL = drop(DEPLOYMENT, "spec.replicas")
"""Replicas that another owner sets."""
_NO_STARTUP = drop(DEPLOYMENT, f"{CONTAINER}.startupProbe")


def _surge(pods: int | str) -> Edit:
    return put(DEPLOYMENT, f"{_ROLLING}.maxSurge", value=pods)


def _replicas(count: int) -> Edit:
    return put(DEPLOYMENT, "spec.replicas", value=count)


def _lets_go(**limit: Any) -> Edit:
    """A budget of another limit for the same pods."""
    return put(_BUDGET, "spec", value={"selector": {"matchLabels": {"app": "qwen35-server"}}, **limit})


_WEB = new(
    "web",
    "kubernetes:apps/v1:Deployment",
    {
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {
            "replicas": 3,
            "strategy": {"type": "Recreate"},
            "template": {
                "spec": {"containers": [{"name": "web", "image": "nginx", "readinessProbe": {"periodSeconds": 1}}]}
            },
        },
    },
)
"""Pods without GPUs, which change as they like."""
_CLUSTER = "cluster-autopilot"
_SCOPES = put(_CLUSTER, "nodeConfig", value={"oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"]})
_RULES = (
    "surge-on-whole-node-pods",
    "recreate-on-many-replicas",
    "rollout-stops-too-many",
    "no-disruption-budget",
    "probe-shorter-than-loading",
)

CASES = (
    *(sound(rule, "pods without GPUs", _WEB) for rule in _RULES),
    *(sound(rule, "replicas of another owner", _EXTERNAL, stack="spot") for rule in _RULES),
    *(sound(rule, f"{count} replicas", _replicas(count), stack="spot") for rule in _RULES for count in (0, 1)),
    of_resource(
        "surge-on-whole-node-pods",
        "no strategy at all",
        drop(DEPLOYMENT, _STRATEGY),
        stack="gateway",
    ),
    of_resource("surge-on-whole-node-pods", "one pod", _surge(1), stack="spot"),
    of_resource(
        "surge-on-whole-node-pods",
        "a fifth",
        _surge("20%"),
        stack="spot",
    ),
    sound("surge-on-whole-node-pods", "half a node", _surge(1), gpus=16),
    of_resource("recreate-on-many-replicas", "Recreate, written manually", _RECREATE, stack="cud"),
    of_resource(
        "recreate-on-many-replicas",
        "none yet, of another owner",
        _replicas(0),
        options(DEPLOYMENT, ignore_changes=("spec.replicas",)),
        _RECREATE,
    ),
    of_resource(
        "rollout-stops-too-many",
        "half of twelve",
        put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value="50%"),
        stack="cud",
    ),
    of_resource(
        "no-disruption-budget",
        "the budget deleted",
        delete(_BUDGET),
        stack="gateway",
    ),
    of_resource(
        "no-disruption-budget",
        "a budget that lets all go",
        put(_BUDGET, "spec.maxUnavailable", value="100%"),
        stack="cud",
    ),
    of_resource("no-disruption-budget", "eleven may go", _lets_go(maxUnavailable=11), stack="spot"),
    *(
        of_resource("no-disruption-budget", f"an autoscaler's fleet: {what}", _lets_go(**limit), stack="prod")
        for what, limit in {
            "its minimum": {"maxUnavailable": 2},
            "all": {"maxUnavailable": "100%"},
            "none stays": {"minAvailable": 0},
        }.items()
    ),
    sound(
        "no-disruption-budget",
        "a selector of expressions",
        put(
            _BUDGET,
            "spec.selector",
            value={"matchExpressions": [{"key": "app", "operator": "In", "values": ["qwen35-server", "b"]}]},
        ),
        stack="spot",
    ),
    of_program("probe-shorter-than-loading", "five minutes", settings={"server": {"startupMinutes": 5}}),
    sound(
        "probe-shorter-than-loading",
        "thirty tries for a small model",
        put(DEPLOYMENT, f"{CONTAINER}.startupProbe.failureThreshold", value=30),
        loadingSeconds=300,
    ),
    of_resource(
        "probe-shorter-than-loading",
        "a liveness probe that waits two minutes",
        _NO_STARTUP,
        put(DEPLOYMENT, f"{CONTAINER}.livenessProbe", value={"initialDelaySeconds": 120}),
    ),
    of_resource("autopilot-node-config", "scopes of the nodes", _SCOPES),
    sound(
        "autopilot-node-config",
        "ignored after the first update",
        _SCOPES,
        options(_CLUSTER, ignore_changes=("nodeConfig",)),
    ),
    sound("autopilot-node-config", "a Standard cluster", _SCOPES, put(_CLUSTER, "enableAutopilot", value=False)),
)
