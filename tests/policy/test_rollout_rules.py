from __future__ import annotations

from typing import Any

import pytest

from rule import Resource
from tests.policy.manifests import CONTAINER, GONE, MODEL, POD, changed, kubernetes, one, said, server, urns

BUDGET = kubernetes(
    "policy/v1:PodDisruptionBudget",
    "budget",
    {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "server"}}}},
)
STRATEGY = "spec.strategy"
ROLLING = f"{STRATEGY}.rollingUpdate"
RULES = (
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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("replicas", [0, 1, 12, None])
def test_a_good_fleet_breaks_no_rule(rule: str, replicas: int | None) -> None:
    assert said(rule, server(replicas=replicas), BUDGET) == []


@pytest.mark.parametrize("rule", RULES)
def test_pods_without_gpus_change_as_they_like(rule: str) -> None:
    spec = {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}}
    assert (
        said(rule, kubernetes("apps/v1:Deployment", "web", {"spec": spec | {"strategy": {"type": "Recreate"}}})) == []
    )


@pytest.mark.parametrize(
    ("path", "value", "words", "money"),
    [
        (f"{ROLLING}.maxSurge", 1.0, "maxSurge is 1: 1 more pod of 8 GPUs", "$32.61 an hour (1 A4 node, Spot"),
        (f"{ROLLING}.maxSurge", "20%", "maxSurge is 20%: 3 more pods of 8 GPUs", "$97.83 an hour (3 A4 nodes"),
        (STRATEGY, GONE, "maxSurge is 25% (left out): 3 more pods", "more, where they can be had at all"),
    ],
)
def test_any_surge_of_whole_nodes_is_found_with_its_price(path: str, value: Any, words: str, money: str) -> None:
    text = one(said("surge-on-whole-node-pods", changed(server(), path, value)))
    assert words in text
    assert money in text
    assert "maxSurge: 0, maxUnavailable: 1" in text


def test_a_surge_of_no_pods_in_percent_is_none() -> None:
    assert said("surge-on-whole-node-pods", changed(server(), f"{ROLLING}.maxSurge", "0%")) == []
    assert said("surge-on-whole-node-pods", changed(server(), f"{ROLLING}.maxSurge", 1), gpus=16) == []


def test_recreate_is_found_where_there_is_or_may_be_more_than_one_replica() -> None:
    recreate = {"type": "Recreate"}
    text = one(said("recreate-on-many-replicas", changed(server(), STRATEGY, recreate)))
    assert "spec.strategy.type is Recreate with 12 replicas" in text
    assert "without a single answer" in text
    external = changed(server(replicas=None), STRATEGY, recreate)
    assert "replicas left to another owner" in one(said("recreate-on-many-replicas", external))
    assert said("recreate-on-many-replicas", changed(server(replicas=1), STRATEGY, recreate)) == []


def test_a_rollout_of_half_the_fleet_is_found() -> None:
    half = changed(server(), f"{ROLLING}.maxUnavailable", "50%")
    assert "maxUnavailable is 50%: 6 of 12 replicas stop together" in one(said("rollout-stops-too-many", half))
    assert said("rollout-stops-too-many", half, share=0.5) == []


def test_a_fleet_without_a_disruption_budget_is_found_with_the_money() -> None:
    text = one(said("no-disruption-budget", server()))
    assert "Deployment server: no PodDisruptionBudget of llm selects its pods" in text
    assert "$391.32 an hour" in text
    assert said("no-disruption-budget", server(replicas=1)) == []
    assert urns("no-disruption-budget", server(replicas=None)) == ["server"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("metadata.namespace", "other"), ("spec.selector.matchLabels.app", "another")],
)
def test_a_budget_of_other_pods_does_not_count(path: str, value: str) -> None:
    assert urns("no-disruption-budget", server(), changed(BUDGET, path, value)) == ["server"]


def test_a_budget_selects_by_expressions_too() -> None:
    expressions = [{"key": "app", "operator": "In", "values": ["server", "other"]}]
    assert (
        said("no-disruption-budget", server(), changed(BUDGET, "spec.selector", {"matchExpressions": expressions}))
        == []
    )


@pytest.mark.parametrize("limit", [{"maxUnavailable": "100%"}, {"maxUnavailable": 12}, {"minAvailable": 0}])
def test_a_budget_that_lets_everyone_go_is_none(limit: dict[str, Any]) -> None:
    loose = changed(BUDGET, "spec", limit | {"selector": {"matchLabels": {"app": "server"}}})
    text = one(said("no-disruption-budget", server(), loose))
    assert "PodDisruptionBudget budget lets all 12 replicas of Deployment server go at once" in text


@pytest.mark.parametrize("limit", [{"maxUnavailable": 0}, {"minAvailable": "100%"}, {"minAvailable": 12}])
def test_a_budget_that_lets_nobody_go_is_found(limit: dict[str, Any]) -> None:
    tight = changed(BUDGET, "spec", limit | {"selector": {"matchLabels": {"app": "server"}}})
    text = one(said("disruption-budget-blocks", server(), tight))
    assert "lets none of the 12 pods of Deployment server go" in text
    assert "GKE waits an hour" in text


def test_a_grace_shorter_than_what_has_to_fit_into_it_is_found() -> None:
    short = changed(server(), f"{POD}.terminationGracePeriodSeconds", 14.0)
    text = one(said("grace-below-drain", short))
    assert "terminationGracePeriodSeconds is 14; preStop 5 s + --shutdown-timeout 0 s + 10 s to exit are 15 s" in text
    assert "terminationGracePeriodSeconds: 15 or more" in text
    assert said("grace-below-drain", short, exitSeconds=5) == []


def test_the_shutdown_timeout_and_a_sleep_in_a_shell_count_into_the_grace() -> None:
    drains = server(args=[MODEL, "--shutdown-timeout=60"])
    assert "--shutdown-timeout 60 s" in one(said("grace-below-drain", drains))
    shell = changed(server(), f"{CONTAINER}.lifecycle.preStop", {"exec": {"command": ["sh", "-c", "sleep 30"]}})
    assert "preStop 30 s" in one(said("grace-below-drain", shell))
    defaults = changed(shell, f"{POD}.terminationGracePeriodSeconds", GONE)
    assert "terminationGracePeriodSeconds is 30" in one(said("grace-below-drain", defaults))


def test_a_server_among_several_that_stops_without_a_pause_is_found() -> None:
    text = one(said("stops-before-endpoints-go", changed(server(), f"{CONTAINER}.lifecycle", GONE)))
    assert "spec.template.spec.containers[0].lifecycle.preStop is left out" in text
    assert said("stops-before-endpoints-go", changed(server(replicas=1), f"{CONTAINER}.lifecycle", GONE)) == []


def without_startup(**probe: int) -> Resource:
    return changed(changed(server(), f"{CONTAINER}.startupProbe", GONE), f"{CONTAINER}.livenessProbe", probe)


def test_a_probe_that_ends_a_loading_server_is_found() -> None:
    short = changed(server(), f"{CONTAINER}.startupProbe.failureThreshold", 30.0)
    assert "startupProbe gives up after 300 s" in one(said("probe-shorter-than-loading", short))
    assert said("probe-shorter-than-loading", short, loadingSeconds=300) == []
    text = one(said("probe-shorter-than-loading", without_startup(initialDelaySeconds=120)))
    assert "livenessProbe gives up after 150 s, and there is no startupProbe before it" in text
    assert said("probe-shorter-than-loading", without_startup(initialDelaySeconds=900)) == []


def test_a_server_that_is_killed_before_it_is_taken_out_is_found() -> None:
    inverted = changed(server(), f"{CONTAINER}.livenessProbe.failureThreshold", 2)
    text = one(said("probe-thresholds-inverted", inverted))
    assert "livenessProbe kills after 20 s of failures, readinessProbe takes the pod out after 30 s" in text
    assert "say 120 s" in text


def test_a_probe_at_kubernetes_own_timeout_is_found_with_the_measured_stall() -> None:
    hasty = changed(server(), f"{CONTAINER}.readinessProbe.timeoutSeconds", GONE)
    text = one(said("probe-timeout-hasty", hasty))
    assert "readinessProbe.timeoutSeconds is 1" in text
    assert "streams stall 620.2 ms" in text


def test_a_progress_deadline_inside_the_start_is_found() -> None:
    text = one(said("progress-deadline-below-start", changed(server(), "spec.progressDeadlineSeconds", GONE)))
    assert "spec.progressDeadlineSeconds is 600, and the startupProbe of Deployment server" in text
    assert "allows 1800 s" in text
    assert "progressDeadlineSeconds: 2715" in text
