"""Cases of how replicas start, stop and are replaced."""

from __future__ import annotations

from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    Edit,
    Rule,
    broken,
    delete,
    drop,
    new,
    options,
    put,
    sound,
)

_BUDGET = "PodDisruptionBudget"
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
_RULES = (
    "surge-on-whole-node-pods",
    "recreate-on-many-replicas",
    "no-disruption-budget",
    "probe-shorter-than-loading",
)

_SURGE = Rule("surge-on-whole-node-pods")
_NO_BUDGET = Rule("no-disruption-budget")
_PROBE = Rule("probe-shorter-than-loading")

CASES = (
    *(sound(rule, "pods without GPUs", _WEB) for rule in _RULES),
    *(sound(rule, "replicas of another owner", _EXTERNAL, stack="spot") for rule in _RULES),
    *(sound(rule, f"{count} replicas", _replicas(count), stack="spot") for rule in _RULES for count in (0, 1)),
    _SURGE.broken("no strategy at all", drop(DEPLOYMENT, _STRATEGY), stack="gateway"),
    _SURGE.broken("one pod", _surge(1), stack="spot"),
    _SURGE.broken("a fifth", _surge("20%"), stack="spot"),
    _SURGE.sound("half a node", _surge(1), gpus=16),
    broken("recreate-on-many-replicas", "Recreate, written manually", _RECREATE, stack="cud"),
    broken(
        "recreate-on-many-replicas",
        "none yet, of another owner",
        _replicas(0),
        options(DEPLOYMENT, ignore_changes=("spec.replicas",)),
        _RECREATE,
    ),
    _NO_BUDGET.broken("the budget deleted", delete(_BUDGET), stack="gateway"),
    _NO_BUDGET.broken("a budget that lets all go", put(_BUDGET, "spec.maxUnavailable", value="100%"), stack="cud"),
    _NO_BUDGET.broken("eleven may go", _lets_go(maxUnavailable=11), stack="spot"),
    *(
        _NO_BUDGET.broken(f"an autoscaler's fleet: {what}", _lets_go(**limit), stack="prod")
        for what, limit in {
            "its minimum": {"maxUnavailable": 2},
            "all": {"maxUnavailable": "100%"},
            "none stays": {"minAvailable": 0},
        }.items()
    ),
    _NO_BUDGET.sound(
        "a selector of expressions",
        put(
            _BUDGET,
            "spec.selector",
            value={"matchExpressions": [{"key": "app", "operator": "In", "values": ["qwen35-server", "b"]}]},
        ),
        stack="spot",
    ),
    _PROBE.broken("five minutes", put(DEPLOYMENT, f"{CONTAINER}.startupProbe.failureThreshold", value=30)),
    _PROBE.sound(
        "thirty tries for a small model",
        put(DEPLOYMENT, f"{CONTAINER}.startupProbe.failureThreshold", value=30),
        loadingSeconds=300,
    ),
    _PROBE.broken(
        "a liveness probe that waits two minutes",
        _NO_STARTUP,
        put(DEPLOYMENT, f"{CONTAINER}.livenessProbe", value={"initialDelaySeconds": 120}),
    ),
)
