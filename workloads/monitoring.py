"""Scrape configuration and recording rules for managed Prometheus, from facts/signals.

The cluster's automatic scraping is off: otherwise every sample of these pods would be stored and billed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from facts.signals.model import Catalogue
from workloads.gateway.gateway import Gateway
from workloads.names import (
    APP_LABEL,
    EPP_METRICS_PORT_NAME,
    HTTP_PORT,
    HTTP_PORT_NAME,
    ROUTER_APP,
    ROUTER_METRICS_PORT_NAME,
    epp_name,
    epp_selector,
    own_labels,
    selector,
)
from workloads.server.ranks import STATUS_PORT_NAME
from workloads.server.server import Server

API = "monitoring.googleapis.com/v1"
MAX_TIMEOUT_SECONDS = 10
"""Scrape timeout in seconds, at most the interval. A busy server is slow: eight engines share one exporter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringArgs:
    """Arguments of `Monitoring`."""

    server: Server
    """Servers to scrape."""
    canary: Server | None = None
    """A canary's servers, which are scraped too, without recording rules."""
    signals: Catalogue | None = None
    """Signal catalogue whose recordings become rules. None: no rules."""
    gateway: Gateway | None = None
    """Gateway whose endpoint picker is scraped too, if any."""
    router: bool = False
    """Whether the namespace has routers, which are scraped too."""
    interval_seconds: int = 15
    """Scrape interval."""


class Monitoring(pulumi.ComponentResource):
    """PodMonitorings for servers and endpoint picker, and recording rules.

    They wait until a pod has had a node: a webhook validates rules, its pod needs one, and a new cluster has none. With a volume that a pod
    wrote they do not wait for ready servers; without one they do, unless the fleet starts empty.
    """

    def __init__(self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Monitoring", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(args.server.node_exists_after))

        def custom(what: str, kind: str, object_name: str, spec: dict[str, Any]) -> None:
            k8s.apiextensions.CustomResource(
                f"{name}-{what}",
                api_version=API,
                kind=kind,
                metadata={
                    "name": object_name,
                    "namespace": args.server.namespace,
                    "labels": own_labels(args.server.name),
                },
                spec=spec,
                opts=child,
            )

        server, every = args.server, args.interval_seconds
        scrape = server_scrape(server.name, every, _port(server), has_pod_router=server.has_pod_router)
        custom("server", "PodMonitoring", server.name, scrape)
        if (canary := args.canary) is not None:
            custom(canary.name, "PodMonitoring", canary.name, server_scrape(canary.name, every, _port(canary)))
        if args.gateway is not None and args.gateway.pool is not None:
            custom("picker", "PodMonitoring", epp_name(args.gateway.pool), picker_scrape(args.gateway.pool, every))
            if (pool := args.gateway.canary_pool) is not None:
                custom("picker-canary", "PodMonitoring", epp_name(pool), picker_scrape(pool, every))
        if args.router:
            custom("router", "PodMonitoring", ROUTER_APP, router_scrape(every))
        if args.signals is not None:
            custom("rules", "Rules", server.name, {"groups": [args.signals.recording_group()]})
        self.register_outputs({})


def _port(server: Server) -> str:
    """Name of the port with the metrics of all engines of a pod."""
    return HTTP_PORT_NAME if server.status_port == HTTP_PORT else STATUS_PORT_NAME


def server_scrape(
    server: str, interval_seconds: int, port: str = HTTP_PORT_NAME, *, has_pod_router: bool = False
) -> dict[str, Any]:
    """PodMonitoring spec for the servers; one scrape of a pod covers all of its engines, and the router of a pod with one."""
    kept = ("vllm:.+", "http_requests_total", *(("vllm_router_.+",) if has_pod_router else ()))
    return {
        "selector": {"matchLabels": selector(server)},
        "endpoints": [
            {
                **_endpoint(port, interval_seconds),
                # vLLM's series and the request counters; drop Python's and the process's.
                "metricRelabeling": [{"action": "keep", "sourceLabels": ["__name__"], "regex": "|".join(kept)}],
            }
        ],
        "targetLabels": {
            "metadata": ["pod", "container", "node"],
            "fromPod": [{"from": APP_LABEL, "to": APP_LABEL}],
        },
    }


def picker_scrape(pool: str, interval_seconds: int) -> dict[str, Any]:
    """PodMonitoring spec for the endpoint picker. The chart renders one only with token authentication, which
    the release disables; NetworkPolicies restrict access instead.
    """
    return {
        "selector": {"matchLabels": epp_selector(pool)},
        "endpoints": [_endpoint(EPP_METRICS_PORT_NAME, interval_seconds)],
        "targetLabels": {"metadata": ["pod", "container"]},
    }


def router_scrape(interval_seconds: int) -> dict[str, Any]:
    """PodMonitoring spec for the routers: HAProxy's series, without those of each listener and thread."""
    kept = {"action": "keep", "sourceLabels": ["__name__"], "regex": "haproxy_(?:frontend|backend|server|process)_.+"}
    return {
        "selector": {"matchLabels": selector(ROUTER_APP)},
        "endpoints": [{**_endpoint(ROUTER_METRICS_PORT_NAME, interval_seconds), "metricRelabeling": [kept]}],
        "targetLabels": {"metadata": ["pod", "container"]},
    }


def _endpoint(port: str, interval_seconds: int) -> dict[str, Any]:
    timeout = min(interval_seconds, MAX_TIMEOUT_SECONDS)
    return {"port": port, "path": "/metrics", "interval": f"{interval_seconds}s", "timeout": f"{timeout}s"}
