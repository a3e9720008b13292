"""Types of the catalogue of signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from facts.capacity import MAX_GRACE_SECONDS
from facts.pickers import ARTICLES, PickerRelease

Severity = Literal["page", "ticket"]
"""`page`: users are affected now. `ticket`: a cause or a cost that can wait until morning."""
Question = Literal["serving", "fast", "full", "itself", "healthy", "cost"]
QUESTIONS: Final[Mapping[Question, str]] = {
    "serving": "Is it serving?",
    "fast": "Is it fast?",
    "full": "Is it full?",
    "itself": "Does it still behave as measured?",
    "healthy": "Are nodes and GPUs healthy?",
    "cost": "What does it cost?",
}
"""Sections of the dashboard, in order."""
PANELS: Final[Mapping[str, Question]] = {
    "Replicas": "serving",
    "Output tokens by engine": "serving",
    "Failed and aborted requests": "serving",
    "In front of the servers": "serving",
    "Documents a second": "serving",
    "Time to first token": "fast",
    "Time per output token": "fast",
    "Requests in flight": "full",
    "Cache, drafts, prefix hits": "itself",
    "Tokens": "itself",
    "Pods that do not serve": "healthy",
    "GPU activity": "healthy",
    "USD an hour": "cost",
    "USD per million output tokens": "cost",
}
"""Section by title of each panel of the dashboard, in order."""
RULES_INTERVAL_SECONDS: Final = 30
"""Shortest interval of rules and of alert evaluations. Source: Cloud Monitoring, evaluation_interval is a multiple of 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The gateway in front of a fleet."""

    is_external: bool = False
    """Whether its load balancer is the external one."""
    pool: str | None = None
    """InferencePool of its endpoint picker; None without one."""
    picker: PickerRelease = ARTICLES
    """Release of that picker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What the nodes of a fleet cost."""

    per_node: float
    """USD an hour; of a ComputeClass, of its dearest priority. No series tells a pod's priority: GKE's kube-state-metrics is not known to
    have labels of nodes. The spend guard reads the nodes."""
    is_upper_bound: bool = False
    """Whether some nodes may cost less: a ComputeClass's."""
    reserved: float = 0.0
    """USD an hour of a ComputeClass's reservation, used or not; 0 where its size is not stated."""
    pods_per_node: int = 1
    by_guard: bool = False
    """Whether the cost is what the guard counts, each machine at its priority's price: its log is counted only where there are alerts.
    Nodes that are billed anyway are no machines of the guard's."""
    planned_per_million: float | None = None
    """USD per million output tokens at the published throughput; None where none was published for this shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The properties of a fleet that its signals depend on."""

    server: str
    """Name of the Deployment; value of the label `app` on its pods."""
    namespace: str
    stack: str
    project: str | None = None
    """Google Cloud project of its logs; None for the one that `gcloud` is configured with."""
    cluster: str | None = None
    """Name of the cluster; None where another stack owns it."""
    release: tuple[int, int, int] = (0, 18, 1)
    """vLLM's release, which decides the available series."""
    engines_per_pod: int = 1
    """Data-parallel engines of one pod, each with its own series."""
    prefill_engines: int = 0
    """Those of them that only read prompts. With any, each series of vLLM has the label `role`, `prefill` or `decode`."""
    speculative: bool = False
    prefix_caching: bool = False
    autoscaler: str | None = None
    """Name of the HorizontalPodAutoscaler that KEDA makes; None without one."""
    spending: Literal["pause", "warn"] | None = None
    """What the spend guard of the namespace does at its limit; None without a guard."""
    batch: bool = False
    """Whether `fleet batch run` may send documents to it."""
    only_batches: bool = False
    """Whether servers run only while a batch does, so that nobody else is served."""
    routers: bool = False
    """Whether routers choose a server."""
    gateway: Front | None = None
    price: Price | None = None
    """None where it is unknown."""
    ttft_seconds: float = 2.5
    """Limit for a good first token: a bound of vLLM's histogram."""
    tpot_seconds: float = 0.1
    """Limit for a good mean time per output token: a bound of vLLM's histogram."""
    objective: float = 0.99
    """Share of requests that must be good, over 30 days."""
    node_seconds: int = 780
    """Slow-case wait of a pod for its node and image."""
    start_seconds: int = 2100
    """Slow-case time from Pending to ready: node, image, weights, engines."""
    grace_seconds: int = MAX_GRACE_SECONDS
    """Time of a deleted pod to end."""
    interval_seconds: int = 15
    """Scrape interval."""

    @property
    def idle_hours(self) -> int:
        """Hours without a request before an hour more is told. An autoscaler's minimum is kept through nights on purpose, and what load
        adds to it goes by itself.
        """
        return 23 if self.autoscaler is not None and not self.only_batches else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded series for long windows and dashboards."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. Its section in runbook.md has the same name."""

    name: str
    expr: str
    for_seconds: int
    severity: Severity
    panel: str
    """Title of the panel that shows it."""
    summary: str
    """One line for the message, with the fleet's name."""
    every_seconds: int = 60
    """Evaluation interval."""

    @property
    def question(self) -> Question:
        """The section of its panel."""
        return PANELS[self.panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSignal:
    """A counter of log entries, or the distribution of a number in them."""

    name: str
    """Of the log-based metric: letters, digits, underscores."""
    filter: str
    """In Cloud Logging's query language."""
    resource: str
    """Type of the log's monitored resource."""
    why: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Extractor by label."""
    value: str | None = None
    """Extractor of the number; None for a counter."""

    def series(self, **labels: str) -> str:
        """Selector of a counter's series; `|` in a value separates several. Source: Cloud Monitoring docs, "Map Cloud Monitoring metrics to
        PromQL".
        """
        return self._selector("", labels)

    def part(self, suffix: Literal["_sum", "_count"]) -> str:
        """Selector of one series of a distribution, which is a histogram in PromQL. Source: the same."""
        return self._selector(suffix, {})

    def _selector(self, suffix: str, labels: Mapping[str, str]) -> str:
        wanted = {"monitored_resource": self.resource, **labels}
        matchers = ",".join(f'{key}={"~" if "|" in value else ""}"{value}"' for key, value in wanted.items())
        return f"logging_googleapis_com:user_{self.name}{suffix}{{{matchers}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One line, or one group of lines, of a panel."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart of the dashboard."""

    title: str
    unit: str
    """In UCUM: `1`, `s`, `1/s`, `{request}`, `USD`."""
    queries: tuple[Query, ...]
    thresholds: tuple[float, ...] = ()
    """Thresholds of alerts."""

    @property
    def section(self) -> Question:
        """Its place on the dashboard."""
        return PANELS[self.title]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All signals of one fleet."""

    watched: Watched
    recordings: tuple[Recording, ...]
    alerts: tuple[Alert, ...]
    logs: tuple[LogSignal, ...]
    panels: tuple[Panel, ...]

    def recording_group(self) -> dict[str, Any]:
        """The recordings as a group in Prometheus' rules format, labeled with the server."""
        server = self.watched.server
        return {
            "name": server,
            "interval": f"{max(RULES_INTERVAL_SECONDS, self.watched.interval_seconds)}s",
            "rules": [
                {"record": recording.name, "expr": recording.expr, "labels": {"app": server}}
                for recording in self.recordings
            ],
        }
