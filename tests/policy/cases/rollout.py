"""Cases of how replicas start, stop and are replaced."""

from __future__ import annotations

from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    POD,
    Edit,
    Patch,
    Resources,
    arguments,
    delete,
    drop,
    flag,
    new,
    of_program,
    of_resource,
    options,
    put,
    result,
    returning,
    set_at,
    sound,
)

_RECORDING = "monitoring-rules"
_BUDGET = "server-disruption-budget"
_STRATEGY = "spec.strategy"
_ROLLING = f"{_STRATEGY}.rollingUpdate"
_RECREATE = put(DEPLOYMENT, _STRATEGY, value={"type": "Recreate"})
_EXTERNAL = drop(DEPLOYMENT, "spec.replicas")
"""Replicas that another owner sets."""
_HALF = put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value="50%")
_NO_STARTUP = drop(DEPLOYMENT, f"{CONTAINER}.startupProbe")


def _after(name: str) -> Edit:
    """Recording rules that wait for this resource and nothing else."""

    def edit(resources: Resources) -> None:
        options(_RECORDING, dependencies=(resources[name].urn,))(resources)

    return edit


def _deployment(path: str, value: Any) -> Patch:
    """Another Deployment from the program."""
    return result("workloads.server.server.deployment_spec", lambda spec: set_at(spec, path, value=value))


def _budget(**spec: Any) -> Patch:
    return result("workloads.server.server.disruption_budget", lambda made: made.update(spec))


def _probe(path: str, value: Any) -> Patch:
    return result("workloads.server.pod.probes", lambda probes: set_at(probes, path, value=value))


def _surge(pods: int | str) -> Edit:
    return put(DEPLOYMENT, f"{_ROLLING}.maxSurge", value=pods)


def _replicas(count: int) -> Edit:
    return put(DEPLOYMENT, "spec.replicas", value=count)


def _grace(seconds: int) -> Edit:
    return put(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds", value=seconds)


def _lets_go(**limit: Any) -> Edit:
    """A budget of another limit for the same pods."""
    return put(_BUDGET, "spec", value={"selector": {"matchLabels": {"app": "qwen35-server"}}, **limit})


def _sleeping(text: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.lifecycle", value={"preStop": {"exec": {"command": ["sh", "-c", text]}}})


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
    "rollout-stops-too-many",
    "no-disruption-budget",
    "disruption-budget-blocks",
    "grace-below-drain",
    "stops-before-endpoints-go",
    "probe-shorter-than-loading",
    "probe-thresholds-inverted",
    "probe-timeout-hasty",
    "progress-deadline-below-start",
)

CASES = (
    *(sound(rule, "pods without GPUs", _WEB) for rule in _RULES),
    *(sound(rule, "replicas of another owner", _EXTERNAL, stack="spot") for rule in _RULES),
    *(sound(rule, f"{count} replicas", _replicas(count), stack="spot") for rule in _RULES for count in (0, 1)),
    of_program(
        "surge-on-whole-node-pods", "one pod more", _deployment("strategy.rolling_update.max_surge", 1), stack="guest"
    ),
    of_resource(
        "surge-on-whole-node-pods", "Kubernetes' own quarter", drop(DEPLOYMENT, f"{_ROLLING}.maxSurge"), stack="cud"
    ),
    of_resource(
        "surge-on-whole-node-pods",
        "no strategy at all",
        drop(DEPLOYMENT, _STRATEGY),
        stack="gateway",
        says=("25% (default): 2 more", "$65.21 to $86.28 an hour"),
    ),
    of_resource("surge-on-whole-node-pods", "one pod", _surge(1), stack="spot", says="$32.61 to $43.14 an hour"),
    of_resource(
        "surge-on-whole-node-pods",
        "a fifth",
        _surge("20%"),
        stack="spot",
        says=("20%: 3 more", "$97.82 to $129.42 an hour"),
    ),
    sound("surge-on-whole-node-pods", "no pod, in percent", _surge("0%")),
    sound("surge-on-whole-node-pods", "half a node", _surge(1), gpus=16),
    of_program("recreate-on-many-replicas", "Recreate", _deployment("strategy", {"type": "Recreate"}), stack="spot"),
    of_resource("recreate-on-many-replicas", "Recreate, written manually", _RECREATE, stack="cud", says="12 replicas"),
    of_resource("recreate-on-many-replicas", "replicas of another owner", _EXTERNAL, _RECREATE),
    sound("recreate-on-many-replicas", "one replica", _RECREATE),
    of_program(
        "rollout-stops-too-many", "half", _deployment("strategy.rolling_update.max_unavailable", "50%"), stack="spot"
    ),
    of_resource(
        "rollout-stops-too-many", "six of twelve", put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value=6), stack="cud"
    ),
    of_resource(
        "rollout-stops-too-many",
        "half of twelve",
        put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value="50%"),
        stack="cud",
        says="50%: 6 of 12",
    ),
    sound(
        "rollout-stops-too-many",
        "half of twelve, agreed",
        put(DEPLOYMENT, f"{_ROLLING}.maxUnavailable", value="50%"),
        stack="cud",
        share=0.5,
    ),
    of_program(
        "no-disruption-budget",
        "a budget for other pods",
        _budget(selector={"match_labels": {"app": "another-server"}}),
        stack="spot",
    ),
    of_resource(
        "no-disruption-budget",
        "the budget deleted",
        delete(_BUDGET),
        stack="gateway",
        says="$260.85 to $345.11 an hour",
    ),
    of_resource(
        "no-disruption-budget",
        "a budget that lets all go",
        put(_BUDGET, "spec.maxUnavailable", value="100%"),
        stack="cud",
        says="all 12 replicas",
    ),
    of_resource("no-disruption-budget", "twelve may go", _lets_go(maxUnavailable=12), stack="spot"),
    of_resource("no-disruption-budget", "eleven may go", _lets_go(maxUnavailable=11), stack="spot", says="11 of 12"),
    *(
        of_resource("no-disruption-budget", f"an autoscaler's fleet: {what}", _lets_go(**limit), stack="prod")
        for what, limit in {
            "its minimum": {"maxUnavailable": 2},
            "all": {"maxUnavailable": "100%"},
            "none stays": {"minAvailable": 0},
        }.items()
    ),
    of_resource("no-disruption-budget", "none must stay", _lets_go(minAvailable=0), stack="spot"),
    of_resource(
        "no-disruption-budget", "another namespace's", put(_BUDGET, "metadata.namespace", value="other"), stack="spot"
    ),
    of_resource("no-disruption-budget", "replicas of another owner", delete(_BUDGET), _EXTERNAL),
    sound("no-disruption-budget", "one replica", delete(_BUDGET)),
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
    of_program("disruption-budget-blocks", "a budget of none", _budget(max_unavailable=0), stack="guest"),
    of_resource("disruption-budget-blocks", "all twelve must stay", _lets_go(minAvailable="100%"), stack="spot"),
    of_resource("disruption-budget-blocks", "twelve must stay", _lets_go(minAvailable=12), stack="spot"),
    of_resource(
        "disruption-budget-blocks", "none may go", _lets_go(maxUnavailable=0), stack="spot", says="none of the 12"
    ),
    of_program(
        "grace-below-drain",
        "five minutes of drain in a grace of 15 seconds",
        settings={"server": {"engine": {"apiServerCount": 1, "shutdownTimeoutSeconds": 300}}},
    ),
    of_resource("grace-below-drain", "half a minute for a sleep of two", _grace(30), stack="cud"),
    of_resource(
        "grace-below-drain",
        "a minute of sleep in a shell, on Spot",
        _sleeping("sleep 1m"),
        stack="spot",
        says="preStop 60 s",
    ),
    of_resource("grace-below-drain", "a second too short", _grace(14), stack="spot", says=("is 14", "are 15 s")),
    sound("grace-below-drain", "a second too short, for a quick exit", _grace(14), stack="spot", exitSeconds=5),
    of_resource("grace-below-drain", "a drain of vLLM's own", flag(DEPLOYMENT, "--shutdown-timeout=60"), says="60 s"),
    of_resource(
        "grace-below-drain",
        "a sleep as long as Kubernetes' own grace",
        _sleeping("sleep 30"),
        drop(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds"),
        says=("is 30", "preStop 30 s"),
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
    sound("stops-before-endpoints-go", "one replica", drop(DEPLOYMENT, f"{CONTAINER}.lifecycle.preStop")),
    of_program("probe-shorter-than-loading", "five minutes", settings={"server": {"startupMinutes": 5}}, stack="guest"),
    of_resource("probe-shorter-than-loading", "the liveness probe alone", _NO_STARTUP, stack="guest"),
    of_resource(
        "probe-shorter-than-loading",
        "thirty tries",
        put(DEPLOYMENT, f"{CONTAINER}.startupProbe.failureThreshold", value=30),
        says="300 s",
    ),
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
        says="150 s",
    ),
    sound(
        "probe-shorter-than-loading",
        "a liveness probe that waits long enough",
        _NO_STARTUP,
        put(DEPLOYMENT, f"{CONTAINER}.livenessProbe", value={"initialDelaySeconds": 900}),
    ),
    of_program(
        "probe-thresholds-inverted", "killed at the first miss", _probe("liveness.failure_threshold", 1), stack="guest"
    ),
    of_resource(
        "probe-thresholds-inverted",
        "taken out after five minutes, killed after two",
        put(DEPLOYMENT, f"{CONTAINER}.readinessProbe.failureThreshold", value=30),
        stack="spot",
    ),
    of_resource(
        "probe-thresholds-inverted",
        "killed at the second miss",
        put(DEPLOYMENT, f"{CONTAINER}.livenessProbe.failureThreshold", value=2),
        says=("20 s", "30 s", "120 s"),
    ),
    of_program("server-without-probes", "nobody asks", _probe("readiness", {}), stack="guest"),
    of_resource("server-without-probes", "ready at once", drop(DEPLOYMENT, f"{CONTAINER}.readinessProbe")),
    of_resource("server-without-probes", "alive for ever", drop(DEPLOYMENT, f"{CONTAINER}.livenessProbe"), stack="cud"),
    of_resource(
        "server-without-probes",
        "a page that is not there",
        put(DEPLOYMENT, f"{CONTAINER}.readinessProbe.httpGet.path", value="/"),
        says="404",
    ),
    of_program("probe-timeout-hasty", "one second", _probe("readiness.timeout_seconds", 1), stack="guest"),
    of_resource(
        "probe-timeout-hasty",
        "the default of a second",
        drop(DEPLOYMENT, f"{CONTAINER}.livenessProbe.timeoutSeconds"),
        stack="cud",
        says="620.2 ms",
    ),
    of_resource(
        "probe-timeout-hasty", "a second of readiness", drop(DEPLOYMENT, f"{CONTAINER}.readinessProbe.timeoutSeconds")
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
        says=("is 600", "1800 s", "progressDeadlineSeconds: 2715"),
    ),
    of_program(
        "webhook-before-any-node",
        "rules made as soon as their namespace",
        arguments(
            "workloads.monitoring.k8s.apiextensions.CustomResource",
            lambda given: setattr(given["opts"], "depends_on", None),
        ),
    ),
    of_resource("webhook-before-any-node", "rules that need nothing", options(_RECORDING, dependencies=())),
    of_resource("webhook-before-any-node", "rules that need what runs no pod", _after("server-service")),
    sound("webhook-before-any-node", "rules that wait for the servers", _after(DEPLOYMENT)),
    sound("webhook-before-any-node", "another stack's cluster", options(_RECORDING, dependencies=()), stack="guest"),
)
