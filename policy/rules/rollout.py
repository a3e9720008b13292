"""Rules for rollouts, evictions, shutdown, probes and deadlines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import money
from facts.finding import Finding
from facts.texts import plural
from objects import named, namespace_of, number, of_kind, selects, shown
from pods import Pod, fixes_replicas, pods, servers
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, mapped
from scalers import least_replicas

DEFAULT_PERIOD_SECONDS = 10
DEFAULT_THRESHOLD = 3
DEFAULT_SURGE = DEFAULT_UNAVAILABLE = "25%"
"""Source: Kubernetes API reference, Deployment, PodSpec and Probe."""
LOADING_SECONDS = 600
"""Source: the article: provisioning aside, a start takes about ten minutes; vLLM 0.18.1's own wait for its engines."""


CLUSTER = "gcp:container/cluster:Cluster"


def _gpu_deployments(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Pod]]:
    for resource in resources:
        if resource.kind in ("Deployment", "StatefulSet"):
            yield from ((resource, pod) for pod in pods(resource) if pod.gpus)


def count(value: Any, of: int, *, up: bool) -> int | None:
    """A number or percentage ("25%") of `of` pods as a count, None where it is neither."""
    plain = number(value)
    if plain is not None:
        return int(plain)
    match = re.fullmatch(r"([0-9]{1,3})%", value) if isinstance(value, str) else None
    if match is None:
        return None
    share = int(match[1]) * of / 100
    return ceil(share) if up else int(share)


def _many(resource: Resource, pod: Pod) -> bool:
    """Whether there are, or may be, several of these pods: replicas may be managed externally."""
    return pod.replicas > 1 or not fixes_replicas(resource)


def _strategy(resource: Resource) -> Mapping[str, Any]:
    return mapped(dig(resource.props, "spec", "strategy"))


def _surge(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.kind != "Deployment":
        return
    for pod in pods(resource):
        strategy = _strategy(resource)
        if pod.gpus < _least(pod, settings["gpus"]) or dig(strategy, "type") == "Recreate":
            continue
        written = dig(strategy, "rollingUpdate", "maxSurge")
        value = DEFAULT_SURGE if written is None else written
        surge = count(value, max(1, pod.replicas), up=True)
        if surge:
            yield finding(
                f"spec.strategy.rollingUpdate.maxSurge is {shown(value)}{'' if written is not None else ' (default)'}: "
                f"{plural(surge, 'more pod')} of {plural(pod.gpus, 'GPU')} during every rollout",
                at_stake=money.format_cost(pod, pod.nodes_for(surge)) + " more, if capacity is available",
            )


def _least(pod: Pod, given: float | None) -> float:
    """GPUs at which a pod takes a whole node: the setting, else all of its machine's, else eight."""
    if given is not None:
        return given
    return 8 if pod.machine is None else pod.machine.gpus


def _recreate(resource: Resource, _: Settings) -> Iterator[Finding]:
    for _resource, pod in _gpu_deployments([resource]):
        if dig(_strategy(resource), "type") == "Recreate" and _many(resource, pod):
            yield finding(f"spec.strategy.type is Recreate with {_replicas(resource, pod)}")


def _replicas(resource: Resource, pod: Pod) -> str:
    return f"{pod.replicas} replicas" if fixes_replicas(resource) else "replicas managed externally"


def _half(resource: Resource, settings: Settings) -> Iterator[Finding]:
    for _resource, pod in _gpu_deployments([resource]):
        strategy, replicas = _strategy(resource), pod.replicas
        if resource.kind != "Deployment" or dig(strategy, "type") == "Recreate" or replicas < 2:
            continue
        written = dig(strategy, "rollingUpdate", "maxUnavailable")
        value = DEFAULT_UNAVAILABLE if written is None else written
        gone = count(value, replicas, up=False)
        # Without a surge, at least one must stop at a time.
        if gone is not None and gone > max(1, replicas * float(settings["share"])):
            yield finding(
                f"spec.strategy.rollingUpdate.maxUnavailable is {shown(value)}: {gone} of {replicas} replicas stop together"
            )


def _no_budget(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    budgets, bounds = list(of_kind(resources, "PodDisruptionBudget")), least_replicas(resources)
    for resource, pod in _gpu_deployments(resources):
        if not _many(resource, pod):
            continue
        mine = [
            one
            for one in budgets
            if namespace_of(one) == pod.namespace and selects(dig(one.props, "spec", "selector"), pod.labels)
        ]
        if not mine:
            yield finding(
                f"{named(resource)}: no PodDisruptionBudget of {pod.namespace} selects its pods",
                urn=resource.urn,
                at_stake=money.at_stake(resource),
            )
        least = _least_replicas(resource, pod, bounds)
        for budget in mine:
            evicted = _evictable(budget, least)
            if evicted is not None and evicted > max(1, least / 2):
                yield finding(
                    f"{named(budget)} allows evicting {'all' if evicted >= least else f'{evicted} of'} {least} replicas of "
                    f"{named(resource)} together: {_limit(budget)}",
                    write="maxUnavailable: 1",
                    urn=budget.urn,
                    at_stake=money.at_stake(resource),
                )


def _least_replicas(resource: Resource, pod: Pod, bounds: Mapping[str, int]) -> int:
    """The smallest fleet of several: the number written, an autoscaler's minimum, or two."""
    written = pod.replicas if fixes_replicas(resource) else bounds.get(resource.urn, 0)
    return max(2, written)


def _evictable(budget: Resource, replicas: int) -> int | None:
    """How many of these ready pods a budget allows to evict, None without a readable limit."""
    spec = dig(budget.props, "spec")
    gone = count(dig(spec, "maxUnavailable"), replicas, up=True)
    if gone is not None:
        return gone
    kept = count(dig(spec, "minAvailable"), replicas, up=True)
    return None if kept is None else max(0, replicas - kept)


def _limit(budget: Resource) -> str:
    key = "maxUnavailable" if dig(budget.props, "spec", "maxUnavailable") is not None else "minAvailable"
    return f"spec.{key} is {shown(dig(budget.props, 'spec', key))}"


def budget_seconds(probe: Any) -> float:
    """How long a probe may fail before it acts."""
    period, threshold = _probe(probe, "periodSeconds", DEFAULT_PERIOD_SECONDS), _threshold(probe)
    return _probe(probe, "initialDelaySeconds", 0) + period * threshold


def _probe(probe: Any, key: str, default: float) -> float:
    written = number(dig(probe, key))
    return default if written is None else written


def _threshold(probe: Any) -> float:
    return _probe(probe, "failureThreshold", DEFAULT_THRESHOLD)


def _start(resource: Resource, settings: Settings) -> Iterator[Finding]:
    needed = float(settings["loadingSeconds"])
    for server in servers(resource):
        start, live = (dig(server.container.props, key) for key in ("startupProbe", "livenessProbe"))
        # Without a startup probe, the liveness probe judges a server that is still loading.
        name, probe = ("livenessProbe", live) if start is None else ("startupProbe", start)
        if probe is not None and budget_seconds(probe) < needed:
            yield finding(
                f"{server.label}: {server.container.path}.{name} fails after {budget_seconds(probe):g} s"
                + (", and startupProbe is missing" if start is None else ""),
                write=f"startupProbe on /health with failureThreshold x periodSeconds of {needed:g} s or more",
            )


def _node_config(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != CLUSTER or "nodeConfig" in resource.ignore_changes or not has(resource.props, "nodeConfig"):
        return
    if dig(resource.props, "enableAutopilot") is True:
        yield finding("nodeConfig is set, and enableAutopilot is true")


RULES = (
    ResourceRule(
        name="surge-on-whole-node-pods",
        subject="rollout",
        statement="A rollout of whole-node GPU pods stops one pod before it starts the next.",
        evidence="a surge pod needs a spare GPU node, which neither Spot nor a reservation has; Kubernetes defaults to 25 %. Source: the "
        "article, GPU provisioning. Mandatory: the rollout hangs, or buys nodes",
        fix="rollingUpdate: {maxSurge: 0, maxUnavailable: 1}",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="gpus",
                type="integer",
                why="GPUs per pod at which surge is refused; unset: all GPUs of the pod's machine",
            ),
        ),
        judge=_surge,
    ),
    ResourceRule(
        name="recreate-on-many-replicas",
        subject="rollout",
        statement="A fleet of several replicas is not restarted all at the same time.",
        evidence="Recreate stops every replica before the first new one starts: about ten minutes without an answer. Source: Kubernetes, "
        "Deployment strategy; the article's start-up. Mandatory: every change is an outage",
        fix="strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
        level="mandatory",
        severity="high",
        judge=_recreate,
    ),
    ResourceRule(
        name="rollout-stops-too-many",
        subject="rollout",
        statement="A rollout stops at most a third of the replicas at a time.",
        evidence="the remaining replicas take over the requests, and each is already full: 2,000 concurrent requests in the record. "
        "Source: the article. Advisory: the team decides how much capacity it can lose",
        fix="maxUnavailable: 1",
        level="advisory",
        severity="medium",
        settings=(
            Setting(name="share", type="number", default=0.34, why="Largest share of replicas that may stop together"),
        ),
        judge=_half,
    ),
    StackRule(
        name="no-disruption-budget",
        subject="rollout",
        statement="A PodDisruptionBudget stops node upgrades from evicting several GPU replicas at the same time.",
        evidence="without one a drain evicts all pods on its nodes, and each needs about ten minutes to serve again. Source: Kubernetes, "
        "disruptions; the article's start-up. Mandatory: node upgrades are automatic. A single replica needs none",
        fix="a PodDisruptionBudget with maxUnavailable: 1 that selects the pods",
        level="mandatory",
        severity="high",
        judge=_no_budget,
    ),
    ResourceRule(
        name="probe-shorter-than-loading",
        subject="rollout",
        statement="No probe kills a server that is still loading.",
        evidence=f"loading weights, compiling and capturing graphs take up to {LOADING_SECONDS} s, and vLLM answers nothing before. "
        "Source: the article; vLLM 0.18.1, its own wait for engines. Mandatory: a server killed while loading restarts forever, on paid "
        "nodes",
        fix="a startupProbe on /health, every 10 s, with failureThreshold 60 or more",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="loadingSeconds",
                type="number",
                default=LOADING_SECONDS,
                unit="s",
                why="Cold start time of this model",
            ),
        ),
        judge=_start,
    ),
    ResourceRule(
        name="autopilot-node-config",
        subject="rollout",
        statement="An Autopilot cluster has no nodeConfig.",
        evidence="Google's API does not keep it, so every later update replaces the cluster, with all that runs on it. Source: "
        "pulumi/pulumi-gcp#2247 (open), hashicorp/terraform-provider-google#12064; GKE API, NodeConfig. Mandatory: the first update works, "
        "the second deletes the cluster",
        fix="remove nodeConfig; clusterAutoscaling.autoProvisioningDefaults has the nodes' service account and scopes. If the cluster was "
        "made with it, ignoreChanges: [nodeConfig]",
        level="mandatory",
        severity="critical",
        judge=_node_config,
    ),
)
