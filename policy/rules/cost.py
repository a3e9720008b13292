"""What costs money whether or not it serves anybody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

import money
from environment import ENVIRONMENT, why_production
from facts import ledger
from pods import GPU, Pod, pods, quantity, servers
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig, has
from scalers import most_replicas

_FUTURE: Final = "gcp:compute/futureReservation:FutureReservation"
_TOTAL: Final = re.compile(r"\btotal\b\D{0,12}[0-9][0-9,.]*", re.IGNORECASE)
_QUOTA_KEYS: Final = (f"requests.{GPU}", f"limits.{GPU}")
_LOAD_GENERATORS: Final = re.compile(
    r"vllm bench|launch_clients|benchmark_serving|genai-perf|aiperf|guidellm|inference[-_]perf|\blocust\b|\bk6 run\b"
)


def _ordered_without_total(resource: Resource, _: Settings) -> Iterator[Finding]:
    if _is_order(resource) and not _TOTAL.search(str(dig(resource.props, "description") or "")):
        yield Finding(
            what=f"planningStatus is SUBMITTED for {_machines(resource)}, and the description names no total",
        )


def _ordered_unprotected(resource: Resource, _: Settings) -> Iterator[Finding]:
    if _is_order(resource) and not resource.options.protect:
        yield Finding(what=f"{_machines(resource)} are ordered and the resource is not protected")


def _is_order(resource: Resource) -> bool:
    # Without a planning status Google takes the request as submitted.
    return resource.type == _FUTURE and str(dig(resource.props, "planningStatus") or "SUBMITTED") != "DRAFT"


def _machines(resource: Resource) -> str:
    sku = dig(resource.props, "specificSkuProperties")
    count, machine = dig(sku, "totalCount"), dig(sku, "instanceProperties", "machineType")
    seconds = quantity(dig(resource.props, "timeWindow", "duration", "seconds"))
    return f"{count or 'some'} x {machine or 'machine'}" + (f" for {seconds / 86_400:g} days" if seconds else "")


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
            price = None if settings["usdPerNodeHour"] else money.node_price(pod, region)
            usd = settings["usdPerNodeHour"] or (None if price is None else price.usd)
            if usd is None:
                unpriced += nodes
            else:
                total += usd * nodes
                whose = f", {money.origin([price])}" if price else ""
                parts.append(f"{resource.label}: {nodes} x ${usd:,.2f}{whose}")
    if total > ceiling:
        more = f", and {unpriced} node(s) without a published price in {region} come on top" if unpriced else ""
        yield Finding(
            what=f"the stack's GPU nodes cost ${total:,.2f} an hour, above ${ceiling:,.2f} ({'; '.join(parts)}{more})",
            at_stake=f"${total:,.2f} an hour, ${total * 24 * 30:,.0f} in 30 days",
        )
    elif unpriced and settings["usdPerNodeHour"] is None:
        yield Finding(
            what=f"{unpriced} GPU node(s) have no published price in {region or 'a region that no resource names'}, so a ceiling of "
            f"${ceiling:,.2f} an hour cannot be held",
            fix="set usdPerNodeHour to what your contract says",
        )


def _quota_above_plan(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for quota in resources:
        if not quota.is_kubernetes or quota.kind != "ResourceQuota":
            continue
        hard = dig(quota.props, "spec", "hard")
        limits = [amount for key in _QUOTA_KEYS if (amount := quantity(dig(hard, key))) is not None]
        if not limits:
            continue
        namespace = str(dig(quota.props, "metadata", "namespace") or "default")
        planned = _planned_gpus(resources, namespace)
        if planned is None:
            continue
        spare = min(limits) - planned - settings["spareGpus"]
        if spare > 0:
            yield Finding(
                what=f"the quota of namespace {namespace} admits {min(limits):g} GPUs and its workloads ask for {planned}",
                fix=f"{_QUOTA_KEYS[0]}: {planned + settings['spareGpus']:g}",
                urn=quota.urn,
                at_stake=_stake_of_spare(resources, namespace, spare),
            )


def _without_quota(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    limited = {
        str(dig(one.props, "metadata", "namespace") or "default")
        for one in resources
        if one.is_kubernetes
        and one.kind == "ResourceQuota"
        and any(quantity(dig(one.props, "spec", "hard", key)) is not None for key in _QUOTA_KEYS)
    }
    for one in resources:
        for pod in pods(one):
            if pod.gpus and pod.namespace not in limited and (planned := _planned_gpus(resources, pod.namespace)):
                yield Finding(
                    what=f"no quota of namespace {pod.namespace} limits GPUs, and its workloads ask for {planned}",
                    fix=f"a ResourceQuota with {_QUOTA_KEYS[0]}: {planned}",
                    urn=one.urn,
                )


def _planned_gpus(resources: Sequence[Resource], namespace: str) -> int | None:
    """GPUs that a namespace's workloads ask for; None where there are none, or somebody else owns their number."""
    planned, counted, most = 0, False, most_replicas(resources)
    for resource in resources:
        for pod in pods(resource):
            if pod.gpus and pod.namespace == namespace:
                counted = True
                if resource.urn in most:
                    planned += pod.gpus * most[resource.urn]
                    continue
                if resource.kind in ("Deployment", "StatefulSet", "LeaderWorkerSet") and not has(
                    dig(resource.props, "spec"), "replicas"
                ):
                    return None
                planned += pod.gpus * pod.replicas
    return planned if counted else None


def _stake_of_spare(resources: Sequence[Resource], namespace: str, gpus: float) -> str:
    for resource in resources:
        for pod in pods(resource):
            if pod.gpus and pod.namespace == namespace:
                return money.words(pod, ceil(gpus / (8 if pod.machine is None else pod.machine.gpus)))
    return ""


def _benchmark_left_on(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    found = [pod for resource in resources for pod in pods(resource) if _loads(pod)]
    if not found:
        return
    reason = why_production(resources, settings)
    if reason:
        for pod in found:
            yield Finding(
                what=f"{pod.resource.label} sends load to a fleet that is in production: {reason}",
                urn=pod.resource.urn,
                at_stake=_fleet_stake(resources),
            )


def _loads(pod: Pod) -> bool:
    return bool(pod.replicas) and any(
        _LOAD_GENERATORS.search(" ".join(container.words)) for container in pod.containers
    )


def _fleet_stake(resources: Sequence[Resource]) -> str:
    return "; ".join(stake for one in resources if servers(one) and (stake := money.at_stake(one)))


RULES: Final = (
    Rule(
        name="future-reservation-without-total",
        subject="cost",
        statement="An order of reserved machines carries its total in dollars.",
        evidence="a calendar request can be neither changed nor cancelled once approved, about two minutes after it is submitted, and "
        "the whole window is paid: 12 nodes for 7 days at $65 are $131,040. Mandatory: the number is typed by whoever orders",
        fix='write it into the description ("total $131,040.00"), or keep planningStatus at DRAFT',
        level="mandatory",
        severity="critical",
        judge=_ordered_without_total,
    ),
    Rule(
        name="future-reservation-unprotected",
        subject="cost",
        statement="An order of reserved machines is protected.",
        evidence="a replacement is a second order beside the first, and the first is paid to its end. "
        "Mandatory: one changed property could do it",
        fix="protect: true among the resource's options",
        level="mandatory",
        severity="critical",
        judge=_ordered_unprotected,
    ),
    StackRule(
        name="hourly-cost-above-ceiling",
        subject="cost",
        statement="A stack's GPU nodes cost no more an hour than the team has agreed to.",
        evidence=f"an A4 node cost the article ${ledger.value('prices.article.spot.usd')} an hour on Spot and "
        f"${ledger.value('prices.article.cud-1y.usd')} with a 1-year commitment (Americas, March 2026): one digit too many in replicas "
        "is a thousand dollars an hour. Mandatory where a ceiling is set, silent where none is",
        fix="fewer replicas, or a new ceiling in the stack's policy config file",
        level="mandatory",
        severity="high",
        settings=(
            Setting(name="maxUsdPerHour", type="number", unit="USD an hour", why="the ceiling; unset: no ceiling"),
            Setting(
                name="usdPerNodeHour",
                type="number",
                unit="USD an hour",
                why="what a node of yours costs; unset: list prices of the stack's region, and nodes without one are named",
            ),
        ),
        judge=_above_ceiling,
    ),
    StackRule(
        name="gpu-quota-above-plan",
        subject="cost",
        statement="A namespace's GPU quota is what its workloads ask for.",
        evidence="the quota is the only thing that stops a mistyped scale command or an autoscaler from buying nodes. "
        "Mandatory: raising it is a decision of its own. Silent where a workload's replicas belong to somebody else",
        fix="lower the quota to GPUs times replicas",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="spareGpus",
                type="integer",
                unit="GPUs",
                default=0,
                why="GPUs above the plan that an autoscaler may use",
            ),
        ),
        judge=_quota_above_plan,
    ),
    StackRule(
        name="gpu-quota-missing",
        subject="cost",
        statement="A namespace with GPU workloads has a quota of GPUs.",
        evidence="without one a mistyped scale command buys nodes at $30 an hour and more each. Advisory: an organisation may limit the "
        "project's own quota. Silent where a workload's replicas belong to somebody else",
        fix="a ResourceQuota of GPUs times replicas",
        level="advisory",
        severity="medium",
        judge=_without_quota,
    ),
    StackRule(
        name="benchmark-in-production",
        subject="cost",
        statement="No load generator runs against a fleet in production.",
        evidence="a benchmark fills every replica to its limit: users queue behind it, and the hour is paid for made-up prompts. "
        "Mandatory: it is meant for a stack of its own",
        fix="disable the benchmark in this stack, or set environment to test while it runs",
        level="mandatory",
        severity="high",
        settings=(ENVIRONMENT,),
        judge=_benchmark_left_on,
    ),
)
