"""Rules for ceilings, GPU quotas, benchmarks in production and batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

import money
from environment import ENVIRONMENT, why_production
from facts import ledger
from facts.finding import Finding
from facts.names import APP_LABEL, BATCH_MAX_USD, SPENDING_APP
from facts.quantities import quantity
from objects import all_pods, named, namespace_of, number, of_kind, shown
from pods import Pod, fixes_replicas, pods, servers
from rule import Resource, Setting, Settings, StackRule, dig, finding
from scalers import most_replicas, scalers
from tokens import GPU, STACK

OWN_ESTIMATE: Final = "usdPerHour"
"""Output with the program's own estimate, disks and fees included."""
_QUOTA_KEYS: Final = (f"requests.{GPU}", f"limits.{GPU}")
_LOAD_GENERATORS: Final = re.compile(
    r"vllm bench|launch_clients|benchmark_serving|genai-perf|aiperf|guidellm|inference[-_]perf|\blocust\b|\bk6 run\b"
)


def _above_ceiling(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    ceiling = settings["maxUsdPerHour"]
    if ceiling is None:
        return
    total, unpriced, parts, region = 0.0, 0, [], money.region_of(resources)
    most = most_replicas(resources)
    for resource in resources:
        for pod in pods(resource):
            nodes = pod.nodes_for(most.get(resource.urn, pod.replicas)) if pod.gpus else 0
            if not nodes:
                continue
            price = None if settings["usdPerNodeHour"] else money.node_price(pod, region, resources)
            usd = settings["usdPerNodeHour"] or (None if price is None else price.usd)
            if usd is None:
                unpriced += nodes
            else:
                total += usd * nodes
                whose = f", {money.origin(price)}" if price else ""
                parts.append(f"{resource.label}: {nodes} x ${usd:,.2f}{whose}")
    own = _own_estimate(resources) or 0.0
    usd = max(total, own)
    if usd > ceiling:
        more = f", and {unpriced} node(s) without a published price in {region} are not included" if unpriced else ""
        nodes_cost = f" ({'; '.join(parts)}{more})" if parts else ""
        what = "GPU nodes cost" if total >= own else f"own estimate, its output {OWN_ESTIMATE}, is"
        above, limit = money.told_apart(usd, ceiling)
        yield finding(
            f"the stack's {what} {above} an hour, above {limit}{nodes_cost}",
            at_stake=f"${usd:,.2f} an hour, ${usd * 24 * 30:,.0f} in 30 days",
        )
    elif unpriced and settings["usdPerNodeHour"] is None:
        yield finding(
            f"{unpriced} GPU node(s) have no published price in {region or 'an unknown region'}, so the ceiling of "
            f"${ceiling:,.2f} an hour cannot be checked",
            write="usdPerNodeHour of hourly-cost-above-ceiling in the stack's policy config, policy/config/STACK.json: your contract's "
            "price. The stack file's capacity.usdPerNodeHour does not count here",
        )


def _own_estimate(resources: Sequence[Resource]) -> float | None:
    return next((number(dig(resource.props, OWN_ESTIMATE)) for resource in resources if resource.type == STACK), None)


def _quota_above_plan(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for quota in of_kind(resources, "ResourceQuota"):
        namespace, hard = namespace_of(quota), dig(quota.props, "spec", "hard")
        limits = [amount for key in _QUOTA_KEYS if (amount := quantity(dig(hard, key))) is not None]
        planned = _planned_gpus(resources, namespace) if limits else None
        if planned is not None and (spare := min(limits) - planned - settings["spareGpus"]) > 0:
            yield finding(
                f"the quota of namespace {namespace} allows {min(limits):g} GPUs, and its workloads request {planned}",
                write=f"{_QUOTA_KEYS[0]}: {planned + settings['spareGpus']:g}",
                urn=quota.urn,
                at_stake=_stake_of_spare(resources, namespace, spare),
            )


def _planned_gpus(resources: Sequence[Resource], namespace: str) -> int | None:
    """GPUs that a namespace's workloads request; None without GPU workloads, or where replicas are managed externally."""
    planned, counted, most = 0, False, most_replicas(resources)
    for resource in resources:
        for pod in pods(resource):
            if pod.gpus and pod.namespace == namespace:
                counted = True
                if resource.urn in most:
                    planned += pod.gpus * most[resource.urn]
                    continue
                if resource.kind in ("Deployment", "StatefulSet") and not fixes_replicas(resource):
                    return None
                planned += pod.gpus * pod.replicas
    return planned if counted else None


def _stake_of_spare(resources: Sequence[Resource], namespace: str, gpus: float) -> str:
    for resource in resources:
        for pod in pods(resource):
            if pod.gpus and pod.namespace == namespace:
                return money.format_cost(pod, ceil(gpus / (8 if pod.machine is None else pod.machine.gpus)))
    return ""


def _benchmark_left_on(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    reason = why_production(resources, settings)
    for pod in all_pods(resources) if reason else ():
        if _loads(pod):
            yield finding(
                f"{pod.resource.label} generates load in a production stack: {reason}",
                urn=pod.resource.urn,
                at_stake=_fleet_stake(resources),
            )


def _loads(pod: Pod) -> bool:
    return bool(pod.replicas) and any(
        _LOAD_GENERATORS.search(" ".join(container.words)) for container in pod.containers
    )


def _fleet_stake(resources: Sequence[Resource]) -> str:
    return "; ".join(stake for resource in resources if servers(resource) and (stake := money.at_stake(resource)))


def _without_ceiling(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    pauses = any(_pauses(pod) for pod in all_pods(resources))
    for scaler in scalers(resources):
        if not scaler.counts_pods:
            continue
        where = named(scaler.resource)
        if number(dig(scaler.spec, "maxReplicaCount")) is None:
            yield scaler.found(f"{where}: spec.maxReplicaCount is missing, and KEDA's default is {shown(scaler.most)}")
        most = quantity(dig(scaler.resource.props, "metadata", "annotations", BATCH_MAX_USD))
        if most is None and not pauses:
            yield scaler.found(
                f"{where}: metadata.annotations: {BATCH_MAX_USD} is missing, and no spending guard has a limit",
                fix="batch.maxUsd, or the section spending",
            )


def _pauses(pod: Pod) -> bool:
    """Whether it is the spending guard, and pauses the fleet."""
    words = (word for container in pod.containers for word in container.words if word.startswith("--config="))
    return pod.labels.get(APP_LABEL) == SPENDING_APP and any('"then": "pause"' in word for word in words)


RULES: Final = (
    StackRule(
        name="hourly-cost-above-ceiling",
        subject="cost",
        statement="A stack costs no more an hour than its ceiling, by its GPU nodes and by its own output usdPerHour.",
        evidence=f"an A4 node cost the article ${ledger.value('prices.article.spot.usd')} an hour on Spot and "
        f"${ledger.value('prices.article.cud-1y.usd')} with a 1-year commitment (Americas, March 2026); an extra digit in replicas costs "
        "a thousand dollars an hour. Mandatory where a ceiling is set; not checked otherwise",
        fix="fewer replicas, or a higher ceiling in the stack's policy config file",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="maxUsdPerHour",
                type="number",
                unit="USD an hour",
                why="ceiling; unset: not judged",
            ),
            Setting(
                name="usdPerNodeHour",
                type="number",
                unit="USD an hour",
                why="your price of a node that runs, instead of list prices; unset: those of the stack's region, where nodes without "
                "one are reported. usdPerHour, which also has idle reserved nodes, counts beside either",
            ),
        ),
        judge=_above_ceiling,
    ),
    StackRule(
        name="gpu-quota-above-plan",
        subject="cost",
        statement="A namespace's GPU quota equals what its workloads request.",
        evidence="only the quota stops a mistyped scale command or an autoscaler from buying nodes. Mandatory: raising it is a separate "
        "decision. Not checked where replicas are managed externally",
        fix="lower the quota to GPUs x replicas",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="spareGpus",
                type="integer",
                unit="GPUs",
                default=0,
                why="GPUs above the plan, for an autoscaler",
            ),
        ),
        judge=_quota_above_plan,
    ),
    StackRule(
        name="benchmark-in-production",
        subject="cost",
        statement="No load generator runs against a production fleet.",
        evidence="a benchmark fills every replica: users queue behind it, and its synthetic prompts are paid for. Mandatory: use a "
        "separate stack",
        fix="disable the benchmark in this stack, or set environment to test while it runs",
        level="mandatory",
        severity="high",
        settings=(ENVIRONMENT,),
        judge=_benchmark_left_on,
    ),
    StackRule(
        name="batch-without-ceiling",
        subject="cost",
        statement="A fleet that scales by a batch's pods has a maximum of servers and an amount at which it stops.",
        evidence="servers run as long as a batch does: documents that are longer than planned, or clients that hang, rent every server "
        "until someone looks. Source: keda 2.20.2, kubernetes_workload_scaler.go. Advisory: the batch may be small",
        fix="maxReplicaCount, batch.maxUsd or the section spending",
        level="advisory",
        severity="high",
        judge=_without_ceiling,
    ),
)
