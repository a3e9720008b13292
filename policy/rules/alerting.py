"""Rules for alerts, budgets and metrics: someone is told, and what is asked for exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from engines import Engine
from environment import ENVIRONMENT, why_production
from facts.finding import Finding
from facts.releases import VERSIONS, find
from objects import named, namespace_of, number, of_kind, selects
from pods import all_servers
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, listed
from scalers import serves_pods_only
from tokens import ALERT_POLICY, BUDGET, CHANNEL, DASHBOARD, RECORDINGS

_PAGE: Final = "CRITICAL"
_QUERY_OF_DASHBOARD: Final = re.compile(r'"prometheusQuery"\s*:\s*("(?:[^"\\]|\\.)*")')
_OF_VLLM: Final = re.compile(r"(?<![\w:])vllm:[a-z0-9_]+(?![\w:.*+?(])")
"""A series of vLLM by its whole name: no recording, which has a second colon, and no part of a pattern."""
_OTHER_MONITORS: Final = ("PodMonitor", "ServiceMonitor", "ScrapeConfig")
"""Objects of Prometheus Operator, whose selectors this pack does not judge."""


def _no_page(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    policies = [resource for resource in resources if resource.type == ALERT_POLICY]
    pages = [policy for policy in policies if dig(policy.props, "severity") == _PAGE]
    channels = [dig(resource.props, "enabled") for resource in resources if resource.type == CHANNEL]
    reaches = not channels or any(enabled is not False for enabled in channels)
    working = [page for page in pages if reaches and _tells(page)]
    needed = settings["required"] or (policies and (pages or not serves_pods_only(resources)))
    if needed and not working:
        yield finding(f"{len(policies)} alert policies, {len(pages)} of them {_PAGE}, and none pages anyone")
    elif len(working) < len(pages) and (because := why_production(resources, settings)):
        for page in (page for page in pages if page not in working):
            yield finding(f"{page.label} is a page of production ({because}) and reaches no one", urn=page.urn)


def _tells(policy: Resource) -> bool:
    # Before the first update a channel's id is unknown, but there.
    return dig(policy.props, "enabled") is not False and bool(dig(policy.props, "notificationChannels"))


def _late_budget(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != BUDGET:
        return
    shares = [number(dig(rule, "thresholdPercent")) for rule in listed(dig(resource.props, "thresholdRules"))]
    if not any(share is not None and share <= 1 for share in shares):
        yield finding("thresholdRules has no share of 1 (100 %) or less")


def _queries(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, str]]:
    """Every PromQL expression of the stack: its resource, its place and its text."""
    for resource in resources:
        props, spec = resource.props, dig(resource.props, "spec")
        if resource.type == ALERT_POLICY:
            for index, condition in enumerate(listed(dig(props, "conditions"))):
                query = dig(condition, "conditionPrometheusQueryLanguage", "query")
                yield resource, f"conditions[{index}]", str(query or "")
        elif resource.type == DASHBOARD:
            for text in _QUERY_OF_DASHBOARD.findall(str(dig(props, "dashboardJson") or "")):
                yield resource, "dashboardJson", json.loads(text)
        elif resource.is_kubernetes and resource.kind == "ScaledObject":
            for index, trigger in enumerate(listed(dig(spec, "triggers"))):
                yield resource, f"spec.triggers[{index}]", str(dig(trigger, "metadata", "query") or "")
        elif resource.is_kubernetes and resource.kind in RECORDINGS:
            for index, group in enumerate(listed(dig(spec, "groups"))):
                for rule in listed(dig(group, "rules")):
                    yield resource, f"spec.groups[{index}]", str(dig(rule, "expr") or "")


def _unexported(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    releases = [Engine(server).release for server in all_servers(resources)] or [find(one) for one in VERSIONS]
    if any(one is None or not one.known for one in releases):
        return
    exported = {name for one in releases if one is not None for name in one.series}
    for one, path, query in _queries(resources):
        for name in dict.fromkeys(_OF_VLLM.findall(query)):
            if name not in exported:
                yield finding(f"{named(one)}: {path} asks for {name}", urn=one.urn)


def _unscraped(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    if any(resource.kind in _OTHER_MONITORS for resource in resources if resource.is_kubernetes):
        return
    monitors = list(of_kind(resources, "PodMonitoring"))
    if not monitors and not any(_OF_VLLM.search(query) for _one, _path, query in _queries(resources)):
        return  # Another system may collect them.
    for server in all_servers(resources):
        pod, ports = server.pod, listed(dig(server.container.props, "ports"))
        there = {dig(port, key) for port in ports for key in ("name", "containerPort")}
        mine = [
            endpoint
            for one in monitors
            if namespace_of(one) == pod.namespace and selects(dig(one.props, "spec", "selector"), pod.labels)
            for endpoint in listed(dig(one.props, "spec", "endpoints"))
        ]
        if pod.gpus and pod.resource.kind != "Job" and not any(_scrapes(one, there) for one in mine):
            yield finding(
                f"{server.label}: no PodMonitoring of {pod.namespace} collects its metrics", urn=pod.resource.urn
            )


def _scrapes(endpoint: Any, ports: set[Any]) -> bool:
    """Whether an endpoint of a PodMonitoring asks for vLLM's metrics at one of these ports."""
    path = dig(endpoint, "path") if has(endpoint, "path") else "/metrics"
    return path == "/metrics" and dig(endpoint, "port") in ports


RULES: Final = (
    StackRule(
        name="page-to-nobody",
        subject="alerting",
        statement="A stack with alerts pages someone, unless it serves batches only; in production every page does.",
        evidence="pages that are disabled, lowered or without a working channel are noticed at the next outage. Mandatory: nothing else "
        "watches at night",
        fix=f"an alert policy of severity {_PAGE} with an enabled channel",
        level="mandatory",
        severity="high",
        settings=(
            ENVIRONMENT,
            Setting(
                name="required", type="boolean", default=False, why="Whether a stack without alerts is a violation"
            ),
        ),
        judge=_no_page,
    ),
    ResourceRule(
        name="budget-warns-late",
        subject="alerting",
        statement="A budget warns someone before it is spent.",
        evidence="thresholdPercent is a share: with 90 a budget warns at 90 times its amount, or never. Source: Cloud Billing "
        "documentation, budgets. Mandatory: it has no other effect, and nothing tells",
        fix="thresholdRules: [{thresholdPercent: 0.5}, {thresholdPercent: 0.9}]",
        level="mandatory",
        severity="medium",
        judge=_late_budget,
    ),
    StackRule(
        name="series-not-exported",
        subject="alerting",
        statement="Alerts, dashboards and autoscalers ask for series that the stack's vLLM exports.",
        evidence="a series that vLLM renamed or never had is empty: the alert is silent, and the autoscaler sees no load. Gone are, for "
        "example, vllm:gpu_cache_usage_perc and vllm:time_per_output_token_seconds; a counter without _total is none. Source: "
        "facts/data/vllm-series.txt, from the wheels of "
        + " and ".join(VERSIONS[1:])
        + ". Mandatory: it looks like a healthy fleet. "
        "Not checked beside a server of another release",
        fix="the name that /metrics of the server shows",
        level="mandatory",
        severity="high",
        judge=_unexported,
    ),
    StackRule(
        name="server-unscraped",
        subject="alerting",
        statement="The metrics of every GPU server are collected.",
        evidence="alerts, dashboards and autoscalers read them, and their absence looks like an idle fleet. Source: Google Managed "
        "Service for Prometheus, PodMonitoring. Mandatory where the stack has a PodMonitoring or asks for series of vLLM; not checked "
        "beside Prometheus Operator's objects",
        fix="a PodMonitoring that selects the pods, with port http and path /metrics",
        level="mandatory",
        severity="high",
        judge=_unscraped,
    ),
)
