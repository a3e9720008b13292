"""Rules for rollouts, evictions and probes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, Final

import money
from facts.finding import Finding
from facts.texts import plural
from objects import named, namespace_of, number, of_kind, selects, shown
from pods import Pod, fixes_replicas, pods, servers
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding
from scalers import least_replicas

DEFAULTS: Final = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}
"""Of a probe. Source: Kubernetes API reference, Probe."""
DEFAULT_SURGE: Final = "25%"
"""Source: Kubernetes API reference, Deployment."""
LOADING_SECONDS: Final = 600
"""Source: the article: provisioning aside, a start takes about ten minutes; vLLM 0.18.1's own wait for its engines."""


def _gpu_pods(resource: Resource) -> Iterator[Pod]:
    if resource.kind in ("Deployment", "StatefulSet"):
        yield from (pod for pod in pods(resource) if pod.gpus)


def count(value: Any, of: int) -> int | None:
    """A number or percentage ("25%") of `of` pods as a count, rounded up; None where it is neither."""
    if isinstance(value, str) and (match := re.fullmatch(r"([0-9]{1,3})%", value)):
        return ceil(int(match[1]) * of / 100)
    plain = number(value)
    return None if plain is None else int(plain)


def _many(pod: Pod) -> bool:
    """Whether there are, or may be, several of these pods: replicas may be managed externally."""
    return pod.replicas > 1 or not fixes_replicas(pod.resource)


def _surge(resource: Resource, settings: Settings) -> Iterator[Finding]:
    for pod in pods(resource) if resource.kind == "Deployment" else ():
        strategy = dig(resource.props, "spec", "strategy")
        whole = settings["gpus"] or (8 if pod.machine is None else pod.machine.gpus)
        if pod.gpus < whole or dig(strategy, "type") == "Recreate":
            continue
        written = dig(strategy, "rollingUpdate", "maxSurge")
        value = DEFAULT_SURGE if written is None else written
        if surge := count(value, max(1, pod.replicas)):
            yield finding(
                f"spec.strategy.rollingUpdate.maxSurge is {shown(value)}{'' if written is not None else ' (default)'}: "
                f"{plural(surge, 'more pod')} of {plural(pod.gpus, 'GPU')} during every rollout",
                at_stake=money.format_cost(pod, pod.nodes_for(surge)) + " more, if capacity is available",
            )


def _recreate(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in _gpu_pods(resource):
        if dig(resource.props, "spec", "strategy", "type") == "Recreate" and _many(pod):
            fleet = f"{pod.replicas} replicas" if fixes_replicas(resource) else "replicas managed externally"
            yield finding(f"spec.strategy.type is Recreate with {fleet}")


def _no_budget(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    budgets, bounds = list(of_kind(resources, "PodDisruptionBudget")), least_replicas(resources)
    for pod in (pod for resource in resources for pod in _gpu_pods(resource) if _many(pod)):
        one = pod.resource
        mine = [
            budget
            for budget in budgets
            if namespace_of(budget) == pod.namespace and selects(dig(budget.props, "spec", "selector"), pod.labels)
        ]
        if not mine:
            yield finding(f"{named(one)}: no PodDisruptionBudget of {pod.namespace} selects its pods", urn=one.urn)
        # The smallest fleet of several: the number written, an autoscaler's minimum, or two.
        least = max(2, pod.replicas if fixes_replicas(one) else bounds.get(one.urn, 0))
        for budget in mine:
            evicted = _evictable(budget, least)
            if evicted > max(1, least / 2):
                yield finding(
                    f"{named(budget)} allows evicting {'all' if evicted >= least else f'{evicted} of'} {least} replicas of "
                    f"{named(one)} together",
                    write="maxUnavailable: 1",
                    urn=budget.urn,
                    at_stake=money.at_stake(one),
                )


def _evictable(budget: Resource, replicas: int) -> int:
    """How many of these ready pods a budget allows to evict."""
    gone, kept = (count(dig(budget.props, "spec", key), replicas) for key in ("maxUnavailable", "minAvailable"))
    if gone is None:
        return 0 if kept is None else replicas - kept
    return gone


def patience(probe: Any) -> float:
    """Seconds that a probe may fail before it acts."""
    written = {key: number(dig(probe, key)) for key in DEFAULTS}
    delay, period, failures = (DEFAULTS[key] if value is None else value for key, value in written.items())
    return delay + period * failures


def _start(resource: Resource, settings: Settings) -> Iterator[Finding]:
    needed = float(settings["loadingSeconds"])
    for server in servers(resource):
        start, live = (dig(server.container.props, key) for key in ("startupProbe", "livenessProbe"))
        # Without a startup probe, the liveness probe judges a server that is still loading.
        name, probe = ("livenessProbe", live) if start is None else ("startupProbe", start)
        if probe is not None and patience(probe) < needed:
            yield finding(
                f"{server.label}: {server.container.path}.{name} fails after {patience(probe):g} s"
                + (", and startupProbe is missing" if start is None else ""),
                write=f"startupProbe on /health with failureThreshold x periodSeconds of {needed:g} s or more",
            )


RULES: Final = (
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
)
