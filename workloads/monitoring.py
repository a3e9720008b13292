"""What managed Prometheus scrapes, and the few series the fleet is judged by.

The cluster's automatic scraping is off: with it, every sample of these pods would be taken, and billed, twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from settings.sections.monitoring import Monitoring as MonitoringSection
from workloads.names import APP_LABEL, EPP_METRICS_PORT_NAME, HTTP_PORT_NAME, epp_name, epp_selector, selector
from workloads.space import Space

if TYPE_CHECKING:
    from settings.sections.engine import Engine
    from workloads.gateway.gateway import Gateway
    from workloads.server.server import Server

API = "monitoring.googleapis.com/v1"
MAX_TIMEOUT_SECONDS = 10
"""A busy server answers /metrics late: eight engines share one exporter. At most the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringArgs:
    """Arguments of `Monitoring`."""

    space: Space
    """Namespace of the servers; labels."""
    server: Server
    """The servers whose series are taken and summed."""
    also: Sequence[Server] = ()
    """Further servers, whose series are taken and not summed: a canary."""
    gateway: Gateway | None = None
    """The gateway in front of them, where there is one: its endpoint picker is scraped too."""
    monitoring: MonitoringSection = field(default_factory=MonitoringSection)
    """Seconds between two scrapes. `enabled` is the caller's to read."""


class Monitoring(pulumi.ComponentResource):
    """Scrapes of the servers and of the endpoint picker, and the recording rules over them.

    They wait until a pod has had a node. A webhook judges rules and refuses them while it does not answer, its pod needs a
    node too, and a new cluster has none. Not for servers that are ready: a fleet that lacks its last one is scraped too.
    """

    def __init__(self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Monitoring", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(args.server.after_first_node))

        def custom(what: str, kind: str, object_name: str, spec: dict[str, Any]) -> None:
            k8s.apiextensions.CustomResource(
                f"{name}-{what}",
                api_version=API,
                kind=kind,
                metadata={"name": object_name, "namespace": args.space.namespace, "labels": dict(args.space.labels)},
                spec=spec,
                opts=child,
            )

        server, every = args.server, args.monitoring.interval_seconds
        custom("server", "PodMonitoring", server.name, server_scrape(server.name, every))
        for other in args.also:
            custom(other.name, "PodMonitoring", other.name, server_scrape(other.name, every))
        if args.gateway is not None:
            custom("picker", "PodMonitoring", epp_name(args.gateway.pool), picker_scrape(args.gateway.pool, every))
        custom("rules", "Rules", server.name, recording_rules(server.name, server.engine, every))
        self.register_outputs({})


def server_scrape(server: str, interval_seconds: int) -> dict[str, Any]:
    """PodMonitoring spec for the servers; one scrape of a pod returns all of its engines."""
    return {
        "selector": {"matchLabels": selector(server)},
        "endpoints": [
            {
                **_endpoint(HTTP_PORT_NAME, interval_seconds),
                # vLLM's own series and the request counters; Python's and the process's say nothing about the fleet.
                "metricRelabeling": [
                    {"action": "keep", "sourceLabels": ["__name__"], "regex": "vllm:.+|http_requests_total"}
                ],
            }
        ],
        "targetLabels": {
            "metadata": ["pod", "container", "node"],
            "fromPod": [{"from": APP_LABEL, "to": APP_LABEL}],
        },
    }


def picker_scrape(pool: str, interval_seconds: int) -> dict[str, Any]:
    """PodMonitoring spec for the endpoint picker. The chart renders one only together with token authentication, which
    the release switches off; NetworkPolicies say who may ask instead.
    """
    return {
        "selector": {"matchLabels": epp_selector(pool)},
        "endpoints": [_endpoint(EPP_METRICS_PORT_NAME, interval_seconds)],
        "targetLabels": {"metadata": ["pod", "container"]},
    }


def _endpoint(port: str, interval_seconds: int) -> dict[str, Any]:
    timeout = min(interval_seconds, MAX_TIMEOUT_SECONDS)
    return {"port": port, "path": "/metrics", "interval": f"{interval_seconds}s", "timeout": f"{timeout}s"}


def recording_rules(server: str, engine: Engine, interval_seconds: int) -> dict[str, Any]:
    """Rules spec: the fleet's tokens a second, total and output, its fullest KV cache, its queue, and what speculation
    and prefix caching return. The window is four scrapes, so that one missed scrape leaves no gap.
    """
    window = f"{4 * interval_seconds}s"
    of = f'{{{APP_LABEL}="{server}"}}'

    def rate(metric: str) -> str:
        return f"sum(rate(vllm:{metric}_total{of}[{window}]))"

    rules = [
        ("fleet:total_tokens:rate", f"{rate('prompt_tokens')} + {rate('generation_tokens')}"),
        ("fleet:output_tokens:rate", rate("generation_tokens")),
        ("fleet:kv_cache_usage:max", f"max(vllm:kv_cache_usage_perc{of})"),
        ("fleet:requests_running:sum", f"sum(vllm:num_requests_running{of})"),
        ("fleet:requests_waiting:sum", f"sum(vllm:num_requests_waiting{of})"),
        ("fleet:preemptions:rate", rate("num_preemptions")),
    ]
    if engine.speculative is not None:
        accepted, drafted = rate("spec_decode_num_accepted_tokens"), rate("spec_decode_num_draft_tokens")
        rules.append(("fleet:draft_acceptance:ratio", f"{accepted} / {drafted}"))
    if engine.enable_prefix_caching:
        rules.append(("fleet:prefix_cache_hits:ratio", f"{rate('prefix_cache_hits')} / {rate('prefix_cache_queries')}"))
    interval = f"{max(30, interval_seconds)}s"
    return {
        "groups": [
            {
                "name": server,
                "interval": interval,
                "rules": [{"record": record, "expr": expr, "labels": {APP_LABEL: server}} for record, expr in rules],
            }
        ]
    }
