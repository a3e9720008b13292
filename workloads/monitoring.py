"""What managed Prometheus scrapes, and the few series the fleet is judged by.

The cluster's automatic scraping is off: with it, every sample of these pods would be taken, and billed, twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from settings.settings import Settings
from workloads.names import APP_LABEL, EPP_METRICS_PORT_NAME, HTTP_PORT_NAME, epp_name, epp_selector, labels, selector

API = "monitoring.googleapis.com/v1"
MAX_TIMEOUT_SECONDS = 10
"""A busy server answers /metrics late: eight engines share one exporter. At most the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringArgs:
    """Arguments of `Monitoring`."""

    settings: Settings
    namespace: pulumi.Input[str]


class Monitoring(pulumi.ComponentResource):
    """Scrapes of the servers and of the endpoint picker, and the recording rules over them."""

    def __init__(self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Monitoring", name, None, opts)
        settings = args.settings

        def custom(what: str, kind: str, object_name: str, spec: dict[str, Any]) -> None:
            k8s.apiextensions.CustomResource(
                f"{name}-{what}",
                api_version=API,
                kind=kind,
                metadata={
                    "name": object_name,
                    "namespace": args.namespace,
                    "labels": labels(settings, settings.server.name),
                },
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self),
            )

        custom("server", "PodMonitoring", settings.server.name, server_scrape(settings))
        if settings.gateway.enabled:
            custom("picker", "PodMonitoring", epp_name(settings.gateway.pool), picker_scrape(settings))
        custom("rules", "Rules", settings.server.name, recording_rules(settings))
        self.register_outputs({})


def server_scrape(settings: Settings) -> dict[str, Any]:
    """PodMonitoring spec for the servers; one scrape of a pod returns all of its engines."""
    return {
        "selector": {"matchLabels": selector(settings.server.name)},
        "endpoints": [
            {
                **_endpoint(settings, HTTP_PORT_NAME),
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


def picker_scrape(settings: Settings) -> dict[str, Any]:
    """PodMonitoring spec for the endpoint picker. The chart renders one only together with token authentication, which
    the release switches off; NetworkPolicies say who may ask instead.
    """
    return {
        "selector": {"matchLabels": epp_selector(settings.gateway.pool)},
        "endpoints": [_endpoint(settings, EPP_METRICS_PORT_NAME)],
        "targetLabels": {"metadata": ["pod", "container"]},
    }


def _endpoint(settings: Settings, port: str) -> dict[str, Any]:
    interval = settings.monitoring.interval_seconds
    timeout = min(interval, MAX_TIMEOUT_SECONDS)
    return {"port": port, "path": "/metrics", "interval": f"{interval}s", "timeout": f"{timeout}s"}


def recording_rules(settings: Settings) -> dict[str, Any]:
    """Rules spec: the fleet's tokens a second, total and output, its fullest KV cache, its queue, and what speculation
    and prefix caching return. The window is four scrapes, so that one missed scrape leaves no gap.
    """
    window = f"{4 * settings.monitoring.interval_seconds}s"
    of = f'{{{APP_LABEL}="{settings.server.name}"}}'

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
    engine = settings.serving.engine
    if engine.speculative is not None:
        accepted, drafted = rate("spec_decode_num_accepted_tokens"), rate("spec_decode_num_draft_tokens")
        rules.append(("fleet:draft_acceptance:ratio", f"{accepted} / {drafted}"))
    if engine.enable_prefix_caching:
        rules.append(("fleet:prefix_cache_hits:ratio", f"{rate('prefix_cache_hits')} / {rate('prefix_cache_queries')}"))
    interval = f"{max(30, settings.monitoring.interval_seconds)}s"
    return {
        "groups": [
            {
                "name": settings.server.name,
                "interval": interval,
                "rules": [
                    {"record": record, "expr": expr, "labels": {APP_LABEL: settings.server.name}}
                    for record, expr in rules
                ],
            }
        ]
    }
