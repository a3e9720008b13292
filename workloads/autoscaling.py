"""Autoscaling of the servers: KEDA's ScaledObject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from facts.names import APP_LABEL, BATCH_APP, BATCH_MAX_USD, PAUSED_REPLICAS
from settings.derived.scaling import BATCH_DOWN_SECONDS, BATCH_POLL_SECONDS, ScalingPolicy
from workloads import names
from workloads.server.server import Server

KEDA_API: Final = "keda.sh/v1alpha1"
AUTHENTICATION: Final = "gmp"
METRIC: Final = "in-flight"
GMP: Final = "https://monitoring.googleapis.com/v1/projects/{0}/location/global/prometheus"
"""Source: Cloud Monitoring docs, PromQL by the Prometheus HTTP API."""
POLLING_SECONDS: Final = 30
COOLDOWN_SECONDS: Final = 300
"""Seconds from the last window's end to zero replicas, with a minimum of 0. KEDA's default, explicit because callers then lose their
servers."""
SEEN_SECONDS: Final = 120
"""Age of a sample that still counts. KEDA reads with one to two minutes of lag (Cloud Monitoring, latency of metric data); a query's own
look-back is five minutes."""
NEVER_ALONE: Final = 10**9
"""Activation threshold in requests in flight, above any real load. With a minimum of 0, KEDA scales to
zero in one step once no trigger is active, so only the schedule decides. Source: keda 2.20.2, scale_scaledobjects.go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingArgs:
    """Arguments of `Autoscaling`."""

    server: Server
    """Servers to scale. `ServerArgs.replicas` must be None."""
    policy: ScalingPolicy
    """Bounds, target, windows and scaling rates."""
    project: pulumi.Input[str]
    """Project whose Cloud Monitoring stores the servers' series."""


class Autoscaling(pulumi.ComponentResource):
    """Autoscaler of one stack's servers. `Keda` installs KEDA, once per cluster.

    KEDA's object waits for the servers' Deployment. Before it exists, KEDA fails and tries again after up to 1,000 seconds; before its
    first replica serves, KEDA has no metric and logs its fallback at each poll. A first `up` therefore starts further replicas after
    the first one.
    """

    def __init__(self, name: str, args: AutoscalingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Autoscaling", name, None, opts)
        self._name, self._args = name, args
        server, policy = args.server.name, args.policy
        query = pulumi.Output.from_input(args.server.namespace).apply(lambda known: in_flight(server, known))
        needs, triggers = list[pulumi.Resource]([args.server.deployment]), list(cron_triggers(policy))
        if policy.mode == "batch":
            triggers.append(batch_trigger(policy.batch_pods_per_server))
        if policy.mode == "load":
            identity = {"podIdentity": {"provider": "gcp"}}
            needs.append(self._custom("authentication", "TriggerAuthentication", AUTHENTICATION, identity))
            triggers.insert(0, load_trigger(policy, pulumi.Output.format(GMP, args.project), query))
        self._custom("scaled-object", "ScaledObject", server, scaled_object_spec(server, policy, triggers), *needs)
        self.register_outputs({})

    def _metadata(self, called: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        server = self._args.server
        metadata = {"name": called, "namespace": server.namespace, "labels": names.own_labels(server.name)}
        return metadata if annotations is None else {**metadata, "annotations": dict(annotations)}

    def _annotations(self) -> dict[str, str] | None:
        """The ScaledObject's: a pause, and what a batch may cost, which nothing else on the cluster says before it begins."""
        paused, usd = self._args.policy.paused, self._args.policy.batch_max_usd
        found = {PAUSED_REPLICAS: "0"} if paused else {}
        return (found if usd is None else {**found, BATCH_MAX_USD: f"{usd:.2f}"}) or None

    def _custom(
        self, what: str, kind: str, called: str, spec: dict[str, Any], *needs: pulumi.Resource
    ) -> pulumi.Resource:
        annotations = self._annotations() if kind == "ScaledObject" else None
        return k8s.apiextensions.CustomResource(
            f"{self._name}-{what}",
            api_version=KEDA_API,
            kind=kind,
            metadata=self._metadata(called, annotations),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*needs]),
        )


def in_flight(server: str, namespace: str) -> str:
    """PromQL for the fleet's requests in flight. Waiting requests alone would grow during a server's whole start.

    Without a look-back of its own, managed Prometheus would count a lost server's requests for five more minutes, and the autoscaler would
    rent a node for them.
    """
    of = f'{{app="{server}",namespace="{namespace}"}}[{SEEN_SECONDS}s]'
    return f"sum(last_over_time(vllm:num_requests_running{of})) + sum(last_over_time(vllm:num_requests_waiting{of}))"


def scaled_object_spec(server: str, policy: ScalingPolicy, triggers: list[dict[str, Any]]) -> dict[str, Any]:
    """Spec of the ScaledObject. No fallback for a pure schedule, which cannot fail, or with a minimum of 0: an empty
    fleet has no series, and a fallback counts as activity, so KEDA would start a server again and again. Missing metrics remove no server
    in that case either: neither the HPA nor KEDA scales down while a metric fails.
    Source: keda 2.20.2, scale_handler.go and scale_scaledobjects.go; kubernetes, horizontal.go.
    """
    spec: dict[str, Any] = {
        "scaleTargetRef": {"name": server},
        "minReplicaCount": policy.min,
        "maxReplicaCount": policy.max,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior(policy)}},
        "triggers": triggers,
    }
    if policy.min == 0:  # otherwise neither has an effect, and KEDA's webhook warns
        batch = policy.mode == "batch"
        spec |= {
            "pollingInterval": BATCH_POLL_SECONDS if batch else POLLING_SECONDS,
            "cooldownPeriod": BATCH_DOWN_SECONDS if batch else COOLDOWN_SECONDS,
        }
    if policy.mode == "load" and policy.min:
        spec["fallback"] = {
            "failureThreshold": policy.failures_before_fallback,
            "replicas": policy.fallback_replicas,
            "behavior": "currentReplicasIfHigher",
        }
    return spec


def load_trigger(policy: ScalingPolicy, address: pulumi.Input[str], query: pulumi.Input[str]) -> dict[str, Any]:
    """Trigger on requests in flight. A missing series is an error, which keeps the replicas, not zero."""
    metadata: dict[str, Any] = {
        "serverAddress": address,
        "query": query,
        "threshold": str(policy.target_in_flight),
        "ignoreNullValues": "false",
        "timeout": "10s",
    }
    if policy.min == 0:
        metadata["activationThreshold"] = str(NEVER_ALONE)
    return {
        "type": "prometheus",
        "name": METRIC,
        "metricType": "AverageValue",
        "metadata": metadata,
        "authenticationRef": {"name": AUTHENTICATION},
    }


def batch_trigger(pods_per_server: int) -> dict[str, Any]:
    """One server for so many pods of a batch that have not ended: pending ones count, so servers and pods start together.
    Source: keda 2.20.2, kubernetes_workload_scaler.go.
    """
    metadata = {"podSelector": f"{APP_LABEL}={BATCH_APP}", "value": str(pods_per_server)}
    return {"type": "kubernetes-workload", "name": BATCH_APP, "metricType": "AverageValue", "metadata": metadata}


def cron_triggers(policy: ScalingPolicy) -> Iterator[dict[str, Any]]:
    """One trigger per window: a minimum from the time servers must be requested until the window's end."""
    for number, window in enumerate(policy.windows, 1):
        yield {
            "type": "cron",
            "name": f"window-{number}",
            "metadata": {
                "timezone": policy.timezone,
                "start": _cron(*window.opens(policy.early_minutes)),
                "end": _cron(*window.closes()),
                "desiredReplicas": str(window.replicas),
            },
        }


def behavior(policy: ScalingPolicy) -> dict[str, Any]:
    """HPA behavior: scale up immediately; scale down one server at a time, after a window of two starts."""
    up, down = policy.up_period_seconds, policy.down_period_seconds
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": policy.up_window_seconds,
            "policies": [
                {"type": "Percent", "value": policy.up_percent, "periodSeconds": up},
                {"type": "Pods", "value": policy.up_pods, "periodSeconds": up},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": policy.down_window_seconds,
            "policies": [{"type": "Pods", "value": policy.down_pods_per_period, "periodSeconds": down}],
        },
    }


def _cron(days: tuple[int, ...], minute: int) -> str:
    """Crontab with five fields; the week starts on Sunday."""
    of_week = "*" if len(days) == 7 else ",".join(str(day) for day in sorted((day + 1) % 7 for day in days))
    return f"{minute % 60} {minute // 60} * * {of_week}"
