"""Rules for metrics and logs: what alerts, dashboards and autoscalers ask for is collected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from engines import Engine
from facts.finding import Finding
from facts.releases import VERSIONS, find
from objects import all_pods, named, namespace_of, number, of_kind, own_name, selects
from pods import Server, all_servers
from promql import Reading, seconds, values
from routing import RELEASE
from rule import Resource, Setting, Settings, StackRule, dig, finding, has, listed
from rules.alerting import POLICY, RULES_OBJECTS
from rules.rollout import CLUSTER

LOG_METRIC: Final = "gcp:logging/metric:Metric"
DASHBOARD: Final = "gcp:monitoring/dashboard:Dashboard"
MONITORS: Final = ("PodMonitoring", "ClusterPodMonitoring")
OTHER_MONITORS: Final = ("PodMonitor", "ServiceMonitor", "ScrapeConfig")
"""Objects of Prometheus Operator, whose selectors this pack does not judge."""
SYSTEM: Final = ("kube-", "gke-", "gmp-", "gke-managed")
_LOGGED: Final = re.compile(r"logging_googleapis_com:user_(.+)")
_OF_DISTRIBUTION: Final = re.compile("_(sum|count|bucket)$")
_PROM_QUERY: Final = re.compile(r'"prometheusQuery"\s*:\s*("(?:[^"\\]|\\.)*")')
_IN_FILTER: Final = re.compile(r'resource\.labels\.(namespace_name|cluster_name)\s*=\s*"([^"]*)"')
_TYPE_IN_FILTER: Final = re.compile(r'resource\.type\s*=\s*"([^"]*)"')
_COMPONENTS: Final = {
    "kube_deployment_": "DEPLOYMENT",
    "kube_pod_": "POD",
    "kube_horizontalpodautoscaler_": "HPA",
    "kube_statefulset_": "STATEFULSET",
    "kube_daemonset_": "DAEMONSET",
    "DCGM_": "DCGM",
}
"""Component of GKE's monitoring that a series comes from. Source: GKE documentation, kube state metrics; DCGM metrics."""
_LOAD: Final = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_NAME: Final = "__name__"
_OF_VLLM: Final = re.compile(r"(?<![\w:])vllm:[a-z0-9_]+(?![\w:.*+?(])")
"""A series of vLLM by its whole name: no recording, which has a second colon, and no part of a pattern."""
_ADDED: Final = ("app", "namespace", "pod", "engine")
"""Labels by which series of servers are told apart."""
_LEAST_SAMPLES: Final = 1000
"""Samples of one scrape. Assumed: eight engines export several thousand."""


def _queries(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, str]]:
    """Every PromQL expression of the stack: its resource, its place and its text."""
    for resource in resources:
        if resource.type == POLICY:
            for index, condition in enumerate(listed(dig(resource.props, "conditions"))):
                path = "conditionPrometheusQueryLanguage"
                yield resource, f"conditions[{index}]", str(dig(condition, path, "query") or "")
        elif resource.type == DASHBOARD:
            for text in _PROM_QUERY.findall(str(dig(resource.props, "dashboardJson") or "")):
                yield resource, "dashboardJson", json.loads(text)
        elif resource.is_kubernetes and resource.kind == "ScaledObject":
            for index, trigger in enumerate(listed(dig(resource.props, "spec", "triggers"))):
                yield resource, f"spec.triggers[{index}]", str(dig(trigger, "metadata", "query") or "")
        elif resource.is_kubernetes and resource.kind in RULES_OBJECTS:
            for index, group in enumerate(listed(dig(resource.props, "spec", "groups"))):
                for rule in listed(dig(group, "rules")):
                    yield resource, f"spec.groups[{index}]", str(dig(rule, "expr") or "")


def _readings(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, Reading]]:
    for one, path, query in _queries(resources):
        found = values(query)
        for reading in dict.fromkeys(found.readings if found is not None else ()):
            yield one, path, reading


class _There:
    """What a stack makes that series can come from."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        objects = [resource for resource in resources if resource.is_kubernetes and resource.type != RELEASE]
        self.charts = {
            str(dig(resource.props, "namespace") or "default") for resource in resources if resource.type == RELEASE
        }
        self.namespaces = {own_name(resource) for resource in of_kind(objects, "Namespace")} | {
            namespace_of(object_) for object_ in objects if has(dig(object_.props, "metadata"), "namespace")
        }
        self.by_label: Mapping[str, set[str]] = {
            "deployment": {own_name(resource) for resource in of_kind(objects, "Deployment")},
            "horizontalpodautoscaler": {own_name(resource) for resource in of_kind(objects, "HorizontalPodAutoscaler")}
            | {f"keda-hpa-{own_name(resource)}" for resource in of_kind(objects, "ScaledObject")},
        }
        self.apps = {str(pod.labels[key]) for pod in all_pods(objects) for key in pod.labels if key == "app"}
        self.recorded = {
            str(dig(rule, "record"))
            for object_ in objects
            if object_.kind in RULES_OBJECTS
            for group in listed(dig(object_.props, "spec", "groups"))
            for rule in listed(dig(group, "rules"))
        }
        self.logged = {
            str(dig(resource.props, "name") or resource.name): resource
            for resource in resources
            if resource.type == LOG_METRIC
        }
        self.clusters = {
            str(dig(resource.props, "name") or resource.name) for resource in resources if resource.type == CLUSTER
        }
        self.components = [
            tuple(map(str, listed(dig(resource.props, "monitoringConfig", "enableComponents"))))
            for resource in resources
            if resource.type == CLUSTER and has(dig(resource.props, "monitoringConfig"), "enableComponents")
        ]

    def lacks(self, reading: Reading) -> str:
        """Why a series cannot exist; empty where it may."""
        metric = reading.metric
        asked = [text for label, _, text in reading.labels if label in ("namespace", "namespace_name")]
        spaces = reading.chosen("namespace", self.namespaces | self.charts)
        spaces &= reading.chosen("namespace_name", self.namespaces | self.charts)
        if asked and not spaces:
            return "" if any(text.startswith(SYSTEM) for text in asked) else f"namespace {' and '.join(asked)}"
        if asked and spaces.isdisjoint(self.charts):
            for label, there in self.by_label.items():
                if (value := reading.exact(label)) and value not in there:
                    return f"{label} {value} in namespace {asked[0]}"
        if metric.startswith("vllm:") and self.apps and not reading.chosen("app", self.apps):
            return "pods whose label app is another"
        if match := _LOGGED.fullmatch(metric):
            source = reading.exact("monitored_resource")
            log = self.logged.get(match[1]) or self.logged.get(_OF_DISTRIBUTION.sub("", match[1]))
            # A distribution has no series of its plain name, and a counter no others.
            is_distribution = dig(log.props, "metricDescriptor", "valueType") == "DISTRIBUTION" if log else False
            is_asked_as_one = match[1] not in self.logged
            if log is None or dig(log.props, "disabled") is True or is_distribution is not is_asked_as_one:
                return f"a log-based metric {match[1]}"
            types = _TYPE_IN_FILTER.findall(str(dig(log.props, "filter") or ""))
            if source and types and source not in types:
                return f"{match[1]} of {source}"
        if metric.count(":") > 1 and metric not in self.recorded:
            return f"a rule that records {metric}"
        component = next((part for prefix, part in _COMPONENTS.items() if metric.startswith(prefix)), "")
        if component and self.components and not any(component in one for one in self.components):
            return f"monitoringConfig.enableComponents {component} in its cluster"
        return ""


def _missing(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    if not any(all_servers(resources)):
        return  # Series of another stack's objects.
    there = _There(resources)
    lacking = {
        (one.urn, path, why): one
        for one, path, reading in _readings(resources)
        if (why := there.lacks(reading) or _outside(one, reading))
    }
    for (urn, path, why), one in lacking.items():
        yield finding(f"{named(one)}: {path} asks for {why}, which this stack does not have", urn=urn)
    for metric in there.logged.values():
        for key, value in _IN_FILTER.findall(str(dig(metric.props, "filter") or "")):
            of_clusters = key == "cluster_name"
            if of_clusters and there.clusters and value not in there.clusters:
                yield finding(f"{named(metric)}: filter asks for cluster {value}", urn=metric.urn)
            elif not (of_clusters or value.startswith(SYSTEM) or value in there.namespaces | there.charts):
                yield finding(f"{named(metric)}: filter asks for namespace {value}", urn=metric.urn)


def _unexported(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    releases = [Engine(server).release for server in all_servers(resources)] or [find(one) for one in VERSIONS]
    if any(one is None or not one.known for one in releases):
        return
    exported = {name for one in releases if one is not None for name in one.series} | _There(resources).recorded
    for one, path, query in _queries(resources):
        for name in dict.fromkeys(_OF_VLLM.findall(query)):
            if name not in exported:
                yield finding(f"{named(one)}: {path} asks for {name}", urn=one.urn)


def _outside(resource: Resource, reading: Reading) -> str:
    """The namespace that Rules ask for besides their own: they see only that one. Source: prometheus-engine, Rules."""
    if not resource.is_kubernetes or resource.kind != "Rules":
        return ""
    own = namespace_of(resource)
    return "" if reading.chosen("namespace", (own,)) else f"series outside its namespace {own}"


def _unscraped(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    clusters = [resource for resource in resources if resource.type == CLUSTER]
    others = [resource for resource in resources if resource.is_kubernetes and resource.kind in OTHER_MONITORS]
    automatic = ("monitoringConfig", "managedPrometheus", "autoMonitoringConfig", "scope")
    if others or any(dig(cluster.props, *automatic) == "ALL" for cluster in clusters):
        return
    monitors = [resource for kind in MONITORS for resource in of_kind(resources, kind)]
    readings = [reading for _, _, reading in _readings(resources)]
    asked = {reading.metric for reading in readings}
    collected = any(
        dig(cluster.props, "monitoringConfig", "managedPrometheus", "enabled") is True for cluster in clusters
    )
    if not (monitors or collected or any(metric.startswith("vllm:") for metric in asked)):
        return  # Another system may collect them.
    for cluster in clusters:
        off = dig(cluster.props, "monitoringConfig", "managedPrometheus", "enabled") is False
        if off or dig(cluster.props, "monitoringService") == "none":
            yield finding(
                f"{cluster.label} does not collect what its {len(monitors)} PodMonitorings name", urn=cluster.urn
            )
    by = {label for one in readings if one.metric.startswith("vllm:") for label, _, _ in one.labels}
    needed = sorted({*_LOAD, *(metric for metric in asked if metric.startswith("vllm:"))})
    for server in all_servers(resources):
        pod = server.pod
        if not pod.gpus or pod.resource.kind == "Job" or pod.annotation("prometheus.io/scrape") == "true":
            continue
        mine = [
            monitor
            for monitor in monitors
            if (monitor.kind != MONITORS[0] or namespace_of(monitor) == pod.namespace)
            and selects(dig(monitor.props, "spec", "selector"), pod.labels)
        ]
        problems = [_blind(one, server, needed, by, float(settings["mostSeconds"])) for one in mine]
        if "" not in problems:
            why = problems[0] if problems else f"no PodMonitoring of {pod.namespace} selects its pods"
            yield finding(f"{server.label}: {why}", urn=mine[0].urn if mine else pod.resource.urn)


def _blind(monitor: Resource, server: Server, needed: Sequence[str], by: set[str], most: float) -> str:
    """Why a PodMonitoring does not scrape a server's series; empty where it does."""
    samples = number(dig(monitor.props, "spec", "limits", "samples"))
    if samples is not None and 0 < samples < _LEAST_SAMPLES:
        return f"{named(monitor)} limits a scrape to {samples:g} samples"
    copied = {
        str(dig(one, "to") or dig(one, "from")) for one in listed(dig(monitor.props, "spec", "targetLabels", "fromPod"))
    }
    if missing := sorted((by & set(server.pod.labels)) - copied):
        return f"{named(monitor)} does not copy the pods' label {missing[0]}, by which they are asked for"
    problems = [
        _unasked(endpoint, server, needed, most) for endpoint in listed(dig(monitor.props, "spec", "endpoints"))
    ]
    return "" if "" in problems else f"{named(monitor)} {problems[0] if problems else 'has no endpoint'}"


def _unasked(endpoint: Any, server: Server, needed: Sequence[str], most: float) -> str:
    ports = tuple(listed(dig(server.container.props, "ports")))
    known = {str(value) for port in ports for key in ("name", "containerPort") if (value := dig(port, key)) is not None}
    port, path = dig(endpoint, "port"), dig(endpoint, "path")
    if known and str(int(port) if isinstance(port, float) else port) not in {one.removesuffix(".0") for one in known}:
        return f"asks port {port}, which the container does not have"
    if path not in (None, "/metrics"):
        return f"asks {path} instead of /metrics"
    if seconds(dig(endpoint, "interval")) > most:
        return f"asks every {dig(endpoint, 'interval')}"
    for step in listed(dig(endpoint, "metricRelabeling")):
        action, labels = str(dig(step, "action") or "").lower(), [str(one) for one in listed(dig(step, "sourceLabels"))]
        if action == "labeldrop" and any(_matches(dig(step, "regex"), label) for label in _ADDED):
            return f"drops labels {dig(step, 'regex')}"
        if action not in ("keep", "drop") or any(one != _NAME and not has(server.pod.labels, one) for one in labels):
            continue
        for metric in needed:
            value = ";".join(metric if one == _NAME else str(server.pod.labels[one]) for one in labels)
            if _matches(dig(step, "regex"), value) is (action == "drop"):
                return f"drops {metric}"
    return ""


def _matches(pattern: Any, metric: str) -> bool:
    try:
        return re.fullmatch(str(pattern), metric) is not None
    except re.error:
        return False


RULES: Final = (
    StackRule(
        name="asked-of-nothing",
        subject="alerting",
        statement="Alerts, dashboards and autoscalers ask for series of what the stack runs.",
        evidence="a query for a namespace, Deployment, log-based metric or recording that does not exist returns nothing, and nothing "
        "is not an error. Source: Prometheus documentation, querying. Mandatory: an alert that sees nothing is green",
        fix="the name of what the stack runs; remove what is asked for together with who asks",
        level="mandatory",
        severity="high",
        judge=_missing,
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
        "Service for Prometheus, PodMonitoring. Mandatory where the stack or its cluster collects metrics; not checked beside Prometheus "
        "Operator's objects or automatic monitoring",
        fix="a PodMonitoring that selects the pods, with port http, path /metrics and an interval below a minute",
        level="mandatory",
        severity="high",
        settings=(Setting(name="mostSeconds", type="number", default=60, unit="s", why="longest scrape interval"),),
        judge=_unscraped,
    ),
)
