"""The types of the catalogue: what is watched, and the rules, alerts and panels that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Severity = Literal["page", "ticket"]
"""`page`: users are hurt now, wake somebody. `ticket`: a cause or a cost that can wait for the morning."""
Question = Literal["serving", "fast", "full", "fair", "itself", "healthy", "cost"]
QUESTIONS: Final[Mapping[Question, str]] = {
    "serving": "Is it serving?",
    "fast": "Is it fast?",
    "full": "Is it full?",
    "fair": "Is the load spread evenly?",
    "itself": "Does it still behave as measured?",
    "healthy": "Are nodes and GPUs healthy?",
    "cost": "What does it cost?",
}
"""What on-call asks, in the order in which it is asked."""
RULES_INTERVAL_SECONDS: Final = 30
"""Shortest interval of rules and of alert evaluations. Source: Cloud Monitoring, evaluation_interval is a multiple of 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One fleet, as far as its signals depend on it."""

    server: str
    """Name of the Deployment; value of the label `app` on its pods."""
    namespace: str
    stack: str
    engines_per_pod: int = 1
    """Data-parallel engines of one pod, each with series of its own."""
    max_replicas: int | None = 1
    """Most replicas that are declared; None where somebody else owns the number."""
    release: tuple[int, int, int] = (0, 18, 1)
    """vLLM's release, for series that not every release has."""
    speculative: bool = False
    prefix_caching: bool = False
    autoscaler: str | None = None
    """Name of the HorizontalPodAutoscaler that owns the number of replicas; None without one."""
    spending: bool = False
    """Whether a spend guard runs in the namespace."""
    spot: bool = False
    gateway_pool: str | None = None
    """InferencePool of the gateway; None without one."""
    cluster: str | None = None
    """Name of the cluster; None where another stack owns it."""
    zones: tuple[str, ...] = ()
    ttft_seconds: float = 2.5
    """Latest good first token: a bound of vLLM's histogram."""
    tpot_seconds: float = 0.1
    """Slowest good mean time per output token: a bound of vLLM's histogram."""
    objective: float = 0.99
    """Share of requests that must be good, over 30 days."""
    node_seconds: int = 780
    """A pod waits that long for its node and its image, in the slow case."""
    start_seconds: int = 2100
    """From a pending pod to a ready one: node, image, weights, engines; the slow case."""
    interval_seconds: int = 15
    """Between two scrapes."""
    node_usd_per_hour: float | None = None
    pods_per_node: int = 1
    planned_usd_per_million_output: float | None = None
    """Dollars per million output tokens at the published throughput; None where none was published for this shape."""

    @property
    def by_keda(self) -> bool:
        """Whether KEDA made the autoscaler, which it names so."""
        return (self.autoscaler or "").startswith("keda-hpa-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A series that is computed as it comes, for long windows and dashboards."""

    name: str
    expr: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One condition that somebody hears of. Its section in runbook.md has the same name."""

    name: str
    expr: str
    for_seconds: int
    severity: Severity
    question: Question
    summary: str
    """One line for the message: what is wrong, for this fleet."""
    panel: str
    """Title of the panel that shows it."""
    every_seconds: int = 60
    """Between two evaluations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSignal:
    """A counter of log entries."""

    name: str
    """Of the log-based metric: letters, digits, underscores."""
    filter: str
    """In Cloud Logging's query language."""
    resource: str
    """Type of the monitored resource whose log it is."""
    why: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Extractor by label."""

    def series(self, **labels: str) -> str:
        """Selector of its series. Source: Cloud Monitoring docs, "Map Cloud Monitoring metrics to PromQL"."""
        wanted = {"monitored_resource": self.resource, **labels}
        matchers = ",".join(f'{key}="{value}"' for key, value in wanted.items())
        return f"logging_googleapis_com:user_{self.name}{{{matchers}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One line, or one group of lines, of a panel."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart of the dashboard."""

    title: str
    section: Question
    unit: str
    """In UCUM: `1`, `s`, `1/s`, `{request}`, `USD`."""
    queries: tuple[Query, ...]
    thresholds: tuple[float, ...] = ()
    """Values at which an alert looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything that is watched of one fleet."""

    watched: Watched
    recordings: tuple[Recording, ...]
    alerts: tuple[Alert, ...]
    logs: tuple[LogSignal, ...]
    panels: tuple[Panel, ...]

    def recording_group(self) -> dict[str, Any]:
        """The recordings as one group of Prometheus' rules format, each labelled with its server."""
        server = self.watched.server
        return {
            "name": server,
            "interval": f"{max(RULES_INTERVAL_SECONDS, self.watched.interval_seconds)}s",
            "rules": [{"record": one.name, "expr": one.expr, "labels": {"app": server}} for one in self.recordings],
        }

    def rule_groups(self) -> dict[str, Any]:
        """Recordings and alerts in Prometheus' rules format, for its own engine.

        Recordings carry the label `namespace`, which managed Prometheus adds by itself to a `Rules` object's.
        """
        records = self.recording_group()
        namespace = {"namespace": self.watched.namespace}
        records["rules"] = [{**rule, "labels": {**rule["labels"], **namespace}} for rule in records["rules"]]
        alerts = [
            {
                "alert": one.name,
                "expr": one.expr,
                "for": f"{one.for_seconds}s",
                "labels": {"severity": one.severity, "app": self.watched.server, **namespace},
                "annotations": {"summary": one.summary, "panel": one.panel},
            }
            for one in self.alerts
        ]
        interval = f"{RULES_INTERVAL_SECONDS}s"
        return {"groups": [records, {"name": f"{self.watched.server}-alerts", "interval": interval, "rules": alerts}]}
