"""How a fleet changes: which pods stop first, how they end, how long they may take to start, who may evict them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import money
from facts import ledger
from facts.engines import EXIT_SECONDS
from objects import named, namespace_of, number, of_kind, selects, shown
from pods import Container, Pod, pods, servers
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig, has, listed, mapped

DEFAULT_GRACE_SECONDS = 30
DEFAULT_DEADLINE_SECONDS = 600
DEFAULT_PERIOD_SECONDS = 10
DEFAULT_THRESHOLD = 3
DEFAULT_SURGE = DEFAULT_UNAVAILABLE = "25%"
"""Source: Kubernetes API reference, Deployment, PodSpec and Probe."""
LOADING_SECONDS = 600
"""Source: the article: provisioning aside, a start takes about ten minutes; vLLM 0.18.1's own wait for its engines."""
UPGRADE_HOUR = "GKE waits an hour for a budget during a node upgrade, then overrules it"
ITL_P99_MS: float = ledger.value("cluster_ip_rerun.figures.nodes-1.details.itl_ms.p99")
_SLEEP = re.compile(r"\bsleep\s+([0-9]+(?:\.[0-9]+)?)(m?)\b")


CLUSTER = "gcp:container/cluster:Cluster"
MONITORING_API = "monitoring.googleapis.com"
JUDGED_BY_A_POD = ("Rules", "ClusterRules", "GlobalRules")
"""Source: GoogleCloudPlatform/prometheus-engine, validatingwebhookconfiguration.yaml: failurePolicy Fail on create and update."""


def _before_any_node(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    # Another stack's cluster may have had nodes for long.
    if not any(one.type == CLUSTER and dig(one.props, "enableAutopilot") is True for one in resources):
        return
    by_urn = {one.urn: one for one in resources}
    for kind in JUDGED_BY_A_POD:
        for one in of_kind(resources, kind, MONITORING_API):
            if not any(pods(need) for need in _needed(one, by_urn)):
                yield Finding(what=f"{named(one)} depends on nothing that runs a pod", urn=one.urn)


def _needed(resource: Resource, by_urn: Mapping[str, Resource]) -> Iterator[Resource]:
    """Everything that is ready before a resource is made."""
    seen, todo = set[str](), [*resource.dependencies]
    while todo:
        one = by_urn.get(todo.pop())
        if one is not None and one.urn not in seen:
            seen.add(one.urn)
            todo += one.dependencies
            yield one


def _gpu_deployments(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Pod]]:
    for one in resources:
        if one.kind in ("Deployment", "StatefulSet"):
            yield from ((one, pod) for pod in pods(one) if pod.gpus)


def _count(value: Any, of: int, *, up: bool) -> int | None:
    """Pods that a number or a share ("25%") of `of` pods stands for, None where it is neither."""
    plain = number(value)
    if plain is not None:
        return int(plain)
    match = re.fullmatch(r"([0-9]{1,3})%", value) if isinstance(value, str) else None
    if match is None:
        return None
    share = int(match[1]) * of / 100
    return ceil(share) if up else int(share)


def _many(resource: Resource, pod: Pod) -> bool:
    """Whether there is, or may be, more than one of these pods: the number may have another owner."""
    return pod.replicas > 1 or not has(dig(resource.props, "spec"), "replicas")


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
        surge = _count(value, max(1, pod.replicas), up=True)
        if surge:
            yield Finding(
                what=f"spec.strategy.rollingUpdate.maxSurge is {shown(value)}{'' if written is not None else ' (left out)'}: "
                f"{surge} more pod{'' if surge == 1 else 's'} of {pod.gpus} GPUs during every rollout",
                at_stake=money.words(pod, pod.nodes_for(surge)) + " more, where they can be had at all",
            )


def _least(pod: Pod, told: float | None) -> float:
    """GPUs from which on a pod takes a whole node: as told, else all of its machine's; eight where nothing tells."""
    if told is not None:
        return told
    return 8 if pod.machine is None else pod.machine.gpus


def _recreate(resource: Resource, _: Settings) -> Iterator[Finding]:
    for _resource, pod in _gpu_deployments([resource]):
        if dig(_strategy(resource), "type") == "Recreate" and _many(resource, pod):
            yield Finding(what=f"spec.strategy.type is Recreate with {_replicas(resource, pod)}")


def _replicas(resource: Resource, pod: Pod) -> str:
    return (
        f"{pod.replicas} replicas" if has(dig(resource.props, "spec"), "replicas") else "replicas left to another owner"
    )


def _half(resource: Resource, settings: Settings) -> Iterator[Finding]:
    for _resource, pod in _gpu_deployments([resource]):
        strategy, replicas = _strategy(resource), pod.replicas
        if resource.kind != "Deployment" or dig(strategy, "type") == "Recreate" or replicas < 2:
            continue
        written = dig(strategy, "rollingUpdate", "maxUnavailable")
        value = DEFAULT_UNAVAILABLE if written is None else written
        gone = _count(value, replicas, up=False)
        # One at a time is the least there is without a surge.
        if gone is not None and gone > max(1, replicas * float(settings["share"])):
            yield Finding(
                what=f"spec.strategy.rollingUpdate.maxUnavailable is {shown(value)}: {gone} of {replicas} replicas stop together"
            )


def _no_budget(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    budgets = list(of_kind(resources, "PodDisruptionBudget"))
    for resource, pod in _gpu_deployments(resources):
        if not _many(resource, pod):
            continue
        mine = [
            one
            for one in budgets
            if namespace_of(one) == pod.namespace and selects(dig(one.props, "spec", "selector"), pod.labels)
        ]
        if not mine:
            yield Finding(
                what=f"{named(resource)}: no PodDisruptionBudget of {pod.namespace} selects its pods",
                urn=resource.urn,
                at_stake=money.at_stake(resource),
            )
        for budget in mine:
            evicted = _evictable(budget, pod.replicas)
            if evicted is not None and evicted >= pod.replicas > 1:
                yield Finding(
                    what=f"{named(budget)} lets all {pod.replicas} replicas of {named(resource)} go at once: {_limit(budget)}",
                    fix="maxUnavailable: 1",
                    urn=budget.urn,
                    at_stake=money.at_stake(resource),
                )


def _evictable(budget: Resource, replicas: int) -> int | None:
    """How many of so many ready pods a budget lets go, None where it sets no limit that can be read."""
    spec = dig(budget.props, "spec")
    gone = _count(dig(spec, "maxUnavailable"), replicas, up=True)
    if gone is not None:
        return gone
    kept = _count(dig(spec, "minAvailable"), replicas, up=True)
    return None if kept is None else max(0, replicas - kept)


def _limit(budget: Resource) -> str:
    key = "maxUnavailable" if dig(budget.props, "spec", "maxUnavailable") is not None else "minAvailable"
    return f"spec.{key} is {shown(dig(budget.props, 'spec', key))}"


def _blocking_budget(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for budget in of_kind(resources, "PodDisruptionBudget"):
        for resource, pod in _gpu_deployments(resources):
            if namespace_of(budget) != pod.namespace or not selects(dig(budget.props, "spec", "selector"), pod.labels):
                continue
            if pod.replicas and _evictable(budget, pod.replicas) == 0:
                yield Finding(
                    what=f"{named(budget)} lets none of the {pod.replicas} pods of {named(resource)} go: {_limit(budget)}",
                    urn=budget.urn,
                    at_stake=money.at_stake(resource),
                )


def pre_stop_seconds(container: Container) -> float:
    """How long a container is left alone before the stop signal, as far as its hook tells."""
    hook = dig(container.props, "lifecycle", "preStop")
    seconds = number(dig(hook, "sleep", "seconds"))
    if seconds is not None:
        return seconds
    script = " ".join(str(word) for word in listed(dig(hook, "exec", "command")))
    return sum(float(amount) * (60 if minutes else 1) for amount, minutes in _SLEEP.findall(script))


def grace_seconds(pod: Pod) -> float:
    """From the beginning of a pod's end to its kill."""
    written = number(dig(pod.spec, "terminationGracePeriodSeconds"))
    return DEFAULT_GRACE_SECONDS if written is None else written


def _grace(resource: Resource, settings: Settings) -> Iterator[Finding]:
    for server in servers(resource):
        grace, sleep = grace_seconds(server.pod), pre_stop_seconds(server.container)
        drain = server.flags.number("shutdown-timeout") or 0
        needed = sleep + drain + float(settings["exitSeconds"])
        if grace < needed:
            yield Finding(
                what=f"{server.label}: {server.pod.spec_path}.terminationGracePeriodSeconds is {grace:g}; preStop {sleep:g} s + "
                f"--shutdown-timeout {drain:g} s + {float(settings['exitSeconds']):g} s to exit are {needed:g} s",
                fix=f"terminationGracePeriodSeconds: {needed:g} or more; on Spot, where 15 s are all there is, less of the other two",
            )


def _no_pre_stop(resource: Resource, _: Settings) -> Iterator[Finding]:
    for server in servers(resource):
        hook = dig(server.container.props, "lifecycle", "preStop")
        if hook is None and _many(resource, server.pod) and resource.kind in ("Deployment", "StatefulSet"):
            yield Finding(what=f"{server.label}: {server.container.path}.lifecycle.preStop is left out")


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
            yield Finding(
                what=f"{server.label}: {server.container.path}.{name} gives up after {budget_seconds(probe):g} s"
                + (", and there is no startupProbe before it" if start is None else ""),
                fix=f"startupProbe on /health with failureThreshold x periodSeconds of {needed:g} s or more",
            )


def _unasked(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.kind not in ("Deployment", "StatefulSet"):
        return
    for server in servers(resource):
        for name, lost in (
            ("readinessProbe", "requests go to a server that is still loading"),
            ("livenessProbe", "a server whose engine is dead stays as it is"),
        ):
            probe = dig(server.container.props, name)
            path = f"{server.label}: {server.container.path}.{name}"
            if not any(has(probe, how) for how in ("httpGet", "exec", "grpc", "tcpSocket")):
                yield Finding(what=f"{path} asks nothing", why=f"without it {lost}")
            elif has(probe, "httpGet") and dig(probe, "httpGet", "path") in (None, "/"):
                yield Finding(what=f"{path} asks for /, which vLLM answers with 404")


def _inverted(resource: Resource, _: Settings) -> Iterator[Finding]:
    for server in servers(resource):
        ready, live = (dig(server.container.props, key) for key in ("readinessProbe", "livenessProbe"))
        if ready is None or live is None:
            continue
        out, killed = (_threshold(one) * _probe(one, "periodSeconds", DEFAULT_PERIOD_SECONDS) for one in (ready, live))
        if killed <= out:
            yield Finding(
                what=f"{server.label}: livenessProbe kills after {killed:g} s of failures, readinessProbe takes the pod out after "
                f"{out:g} s",
                fix=f"livenessProbe with failureThreshold x periodSeconds well above {out:g} s, say {max(120, 4 * out):g} s",
            )


def _hasty(resource: Resource, _: Settings) -> Iterator[Finding]:
    for server in servers(resource):
        for name in ("readinessProbe", "livenessProbe"):
            probe = dig(server.container.props, name)
            timeout = _probe(probe, "timeoutSeconds", 1)
            if isinstance(probe, Mapping) and timeout * 1000 <= ITL_P99_MS * 2:
                yield Finding(
                    what=f"{server.label}: {server.container.path}.{name}.timeoutSeconds is {timeout:g}",
                    fix="timeoutSeconds: 5 or more",
                )


def _deadline(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.kind != "Deployment":
        return
    for server in servers(resource):
        probe = dig(server.container.props, "startupProbe")
        deadline = number(dig(resource.props, "spec", "progressDeadlineSeconds"))
        deadline = DEFAULT_DEADLINE_SECONDS if deadline is None else deadline
        if probe is not None and deadline < budget_seconds(probe):
            yield Finding(
                what=f"spec.progressDeadlineSeconds is {deadline:g}, and the startupProbe of {server.label} allows "
                f"{budget_seconds(probe):g} s",
                fix=f"progressDeadlineSeconds: {budget_seconds(probe) + grace_seconds(server.pod) + 900:.0f}: grace, fifteen minutes "
                "for a node, start",
            )


RULES = (
    Rule(
        name="surge-on-whole-node-pods",
        subject="rollout",
        statement="A rollout of pods that take a whole GPU node stops one before it starts the next.",
        evidence="a surge pod needs a spare node with GPUs, which neither Spot nor a reservation has; it stays Pending and the "
        "rollout with it. Source: the article, GPU provisioning; Kubernetes defaults to 25 %. Mandatory: the rollout hangs, or "
        "buys nodes",
        fix="rollingUpdate: {maxSurge: 0, maxUnavailable: 1}",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="gpus",
                type="integer",
                why="GPUs of one pod from which on no surge is accepted; unset: all of its machine's",
            ),
        ),
        judge=_surge,
    ),
    Rule(
        name="recreate-on-many-replicas",
        subject="rollout",
        statement="A fleet of several replicas is not restarted all at once.",
        evidence="Recreate stops every replica before the first new one starts: about ten minutes of start-up without a single answer. "
        "Source: Kubernetes, Deployment strategy; the article's start-up. Mandatory: every change is an outage",
        fix="strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
        level="mandatory",
        severity="high",
        judge=_recreate,
    ),
    Rule(
        name="rollout-stops-too-many",
        subject="rollout",
        statement="A rollout takes away no more than a third of the replicas at a time.",
        evidence="what one replica leaves goes to the others, each already full: a record's replica serves 2,000 requests at once. "
        "Source: the article. Advisory: how much can be missed is the team's to know",
        fix="maxUnavailable: 1",
        level="advisory",
        severity="medium",
        settings=(
            Setting(
                name="share", type="number", default=0.34, why="Largest share of the replicas that may stop together"
            ),
        ),
        judge=_half,
    ),
    StackRule(
        name="no-disruption-budget",
        subject="rollout",
        statement="A PodDisruptionBudget keeps node upgrades from taking several GPU replicas at once.",
        evidence="without one a drain evicts every pod it comes to, and each needs about ten minutes to serve again. Source: Kubernetes, "
        "disruptions; the article's start-up. Mandatory: node upgrades come by themselves. One replica needs none",
        fix="a PodDisruptionBudget with maxUnavailable: 1 that selects the pods",
        level="mandatory",
        severity="high",
        judge=_no_budget,
    ),
    StackRule(
        name="disruption-budget-blocks",
        subject="rollout",
        statement="A PodDisruptionBudget lets one pod go.",
        evidence=f"a budget of none holds up every node upgrade: {UPGRADE_HOUR}. It does not bind a Spot preemption at all. Source: GKE "
        "documentation, node upgrades. Advisory: some fleets upgrade by hand",
        fix="maxUnavailable: 1",
        level="advisory",
        severity="medium",
        judge=_blocking_budget,
    ),
    Rule(
        name="grace-below-drain",
        subject="rollout",
        statement="A server's grace period covers its preStop sleep, its shutdown timeout and its exit.",
        evidence=f"the kill comes at the end of the grace, whatever still runs: vLLM leaves its processes 5 s and eight engines take "
        f"about {EXIT_SECONDS}. Source: vLLM 0.18.1, launcher.py. Mandatory: answers that were promised a drain are cut off",
        fix="terminationGracePeriodSeconds of preStop + shutdown timeout + exit",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="exitSeconds",
                type="number",
                default=EXIT_SECONDS,
                unit="s",
                why="What engines need to end after the drain",
            ),
        ),
        judge=_grace,
    ),
    Rule(
        name="stops-before-endpoints-go",
        subject="rollout",
        statement="One of several servers sleeps before its stop signal, so that callers find the others.",
        evidence="the stop signal and the removal from the Service go out together; with the default shutdown timeout of 0 vLLM aborts "
        "what runs at once. Source: Kubernetes, pod termination; vLLM 0.18.1. Advisory: callers that retry do not mind",
        fix="lifecycle: {preStop: {sleep: {seconds: 30}}}, 5 on Spot",
        level="advisory",
        severity="medium",
        judge=_no_pre_stop,
    ),
    Rule(
        name="probe-shorter-than-loading",
        subject="rollout",
        statement="No probe ends a server that is still loading.",
        evidence=f"weights, compilation and graph capture take up to {LOADING_SECONDS} s, vLLM's own wait for its engines; it "
        "answers nothing before. Source: the article; vLLM 0.18.1. Mandatory: a server killed while loading starts over, "
        "for ever, on paid nodes",
        fix="a startupProbe on /health, every 10 s, with failureThreshold 60 or more",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="loadingSeconds",
                type="number",
                default=LOADING_SECONDS,
                unit="s",
                why="What a cold start of this model takes",
            ),
        ),
        judge=_start,
    ),
    Rule(
        name="server-without-probes",
        subject="rollout",
        statement="A server is asked whether it is ready and whether it is alive.",
        evidence="vLLM answers /health once its engines run, and with 503 when one has died. Source: vLLM 0.18.1, api_server. Mandatory: "
        "a rollout would go on over servers that answer nothing",
        fix="readinessProbe and livenessProbe: {httpGet: {path: /health, port: http}}",
        level="mandatory",
        severity="high",
        judge=_unasked,
    ),
    Rule(
        name="probe-thresholds-inverted",
        subject="rollout",
        statement="A server that fails is taken out first and killed later.",
        evidence="a busy server answers /health late; killed for it, it takes ten minutes of all its GPUs to come back and hands its "
        "requests to the others, which is how one slow replica becomes twelve. Mandatory: overload becomes an outage",
        fix="livenessProbe with a larger failureThreshold x periodSeconds than the readinessProbe",
        level="mandatory",
        severity="high",
        judge=_inverted,
    ),
    StackRule(
        name="webhook-before-any-node",
        subject="rollout",
        statement="Recording rules of managed Prometheus are made after a pod of the stack has had a node.",
        evidence="a webhook judges them and refuses them while it does not answer (failurePolicy Fail), its pod needs a node, and "
        "a new Autopilot cluster has none before the first pod of its user waits for one (prometheus-engine, operator chart; GKE "
        "cluster autoscaler, scale_to_zero_processor.go); Pulumi repeats no such create (pulumi-kubernetes, await.go). "
        "Mandatory: the first update of a new cluster fails there",
        fix="depends_on a Job or a Deployment, or what is made after it",
        level="mandatory",
        severity="high",
        judge=_before_any_node,
    ),
    Rule(
        name="probe-timeout-hasty",
        subject="rollout",
        statement="Probes wait longer for an answer than a busy server stalls.",
        evidence=f"streams stall {ITL_P99_MS:g} ms at the 99th percentile while prompts are read, and /health waits its turn among them; "
        "Kubernetes' default is one second. Source: the article, second run. Advisory: it takes several misses in a row",
        fix="timeoutSeconds: 10",
        level="advisory",
        severity="medium",
        judge=_hasty,
    ),
    Rule(
        name="progress-deadline-below-start",
        subject="rollout",
        statement="A Deployment's progress deadline is longer than the start it allows.",
        evidence=f"Kubernetes' default of {DEFAULT_DEADLINE_SECONDS} s reports a normal start as failed, and the deployment "
        "that waits for it stops. Source: Kubernetes, Deployment. Advisory: the pods go on loading",
        fix="progressDeadlineSeconds above grace + node + start",
        level="advisory",
        severity="medium",
        judge=_deadline,
    ),
)
