"""Log-based metrics, for events of Google Cloud and the program's pods that have no metric."""

from __future__ import annotations

import re
from collections.abc import Iterator

from facts.names import BATCH_APP, KEDA_NAMESPACE, spending_namespace
from facts.signals.model import LogSignal, Watched

SPENDING_CONTAINER = "spending-guard"
BATCH_EVENT = "batch"
RATE_EVENT = "spending-rate"
RATE_SECONDS = 60
"""Between two entries of the guard with what an hour of its machines costs."""
FALLS_BACK = "Suppressing error, using fallback metrics"


def log_name(watched: Watched, signal: str) -> str:
    """Name of a log-based metric: unique in a project, so it contains the stack's name, in characters valid in PromQL."""
    return re.sub(r"[^a-z0-9]+", "_", f"{watched.stack}_{signal}".lower())


def logs(watched: Watched) -> Iterator[LogSignal]:
    """Log-based metrics of one fleet. Platform logs have no stack's name, so they cover the whole cluster."""
    yield stock_outs(watched)
    yield gpu_faults(watched)
    if watched.autoscaler is not None:
        yield fallbacks(watched)
    if watched.spending:
        yield spending(watched)
    if watched.price is not None and watched.price.by_guard:
        yield spending_rate(watched)
    if watched.batch:
        yield batch(watched)
        yield batch_documents(watched)


def stock_outs(watched: Watched) -> LogSignal:
    """Failed scale-ups of the cluster autoscaler. Source: GKE docs, "View cluster autoscaler events", messages scale.up.error.*."""
    return LogSignal(
        name=log_name(watched, "scale_up_failures"),
        resource="k8s_cluster",
        filter=_all(
            'log_id("container.googleapis.com/cluster-autoscaler-visibility")',
            *_of_cluster(watched, "k8s_cluster"),
            'jsonPayload.resultInfo.results.errorMsg.messageId:"scale.up.error"',
        ),
        why="why the cluster autoscaler could not create a node",
    )


def gpu_faults(watched: Watched) -> LogSignal:
    """GPUs with a critical Xid error, reported by the device plugin. Source: container-engine-accelerators, pkg/gpu/nvidia/health_check,
    health_checker.go; that Autopilot's own plugin is that one, and its log is kept, is unverified.
    """
    return LogSignal(
        name=log_name(watched, "gpu_faults"),
        resource="k8s_container",
        filter=_all(
            *_of_cluster(watched, "k8s_container"),
            'resource.labels.namespace_name="kube-system"',
            '"XidCriticalError: Xid="',
        ),
        # Source: GKE's logging agent, as gitpod-io/gitpod filters a node's container logs; on Autopilot (unverified).
        labels={"node": 'EXTRACT(labels."compute.googleapis.com/resource_name")'},
        why="a failed GPU stops all engines of its pod, and the node stays",
    )


def fallbacks(watched: Watched) -> LogSignal:
    """KEDA holds the replicas because it cannot read its metric. With a fallback the autoscaler's condition ScalingActive stays True, and
    no series of Kubernetes shows it. Source: keda 2.20.2, pkg/fallback/fallback.go, doFallback: one entry for each query.
    """
    return LogSignal(
        name=log_name(watched, "scaling_fallbacks"),
        resource="k8s_container",
        filter=_all(
            *_of_cluster(watched, "k8s_container"),
            f'resource.labels.namespace_name="{KEDA_NAMESPACE}"',
            f'"{FALLS_BACK}"',
            f'"\\"scaledObject.Namespace\\": \\"{watched.namespace}\\""',
            f'"\\"scaledObject.Name\\": \\"{watched.server}\\""',
        ),
        why="the autoscaler looks healthy while KEDA holds the replicas on its fallback",
    )


def spending(watched: Watched) -> LogSignal:
    """Steps of the spend guard, one JSON object each. `paused`, `over` and `blind` are repeated while they last."""
    why = "warnings, pauses and failures of the spend guard"
    return _steps(watched, "spending", spending_namespace(watched.namespace), SPENDING_CONTAINER, why)


def spending_rate(watched: Watched) -> LogSignal:
    """USD an hour of the namespace's machines as the spend guard counts them, once a minute."""
    return LogSignal(
        name=log_name(watched, "machines_usd_per_hour"),
        resource="k8s_container",
        filter=_entries(watched, RATE_EVENT, spending_namespace(watched.namespace), SPENDING_CONTAINER),
        value="EXTRACT(jsonPayload.machinesUsdPerHour)",
        why="what the machines cost, each at the price of its priority, and a reservation whole",
    )


def batch(watched: Watched) -> LogSignal:
    """Steps of a batch's pods, one JSON object each. `stalled` and `blind` are repeated while they last."""
    why = "batches that stand still, fail, cannot reach their bucket, or end at their limit"
    return _steps(watched, BATCH_EVENT, watched.namespace, BATCH_APP, why)


def batch_documents(watched: Watched) -> LogSignal:
    """Documents of a shard that has its result."""
    return LogSignal(
        name=log_name(watched, "batch_documents"),
        resource="k8s_container",
        filter=_all(_entries(watched, BATCH_EVENT, watched.namespace, BATCH_APP), 'jsonPayload.step="done"'),
        value="EXTRACT(jsonPayload.documents)",
        why="how fast a batch goes on",
    )


def _steps(watched: Watched, event: str, namespace: str, container: str, why: str) -> LogSignal:
    """Entries of one of the stack's small programs, by their step."""
    return LogSignal(
        name=log_name(watched, event),
        resource="k8s_container",
        filter=_entries(watched, event, namespace, container),
        labels={"step": "EXTRACT(jsonPayload.step)"},
        why=why,
    )


def _entries(watched: Watched, event: str, namespace: str, container: str) -> str:
    return _all(
        *_of_cluster(watched, "k8s_container"),
        f'resource.labels.namespace_name="{namespace}"',
        f'resource.labels.container_name="{container}"',
        f'jsonPayload.event="{event}"',
    )


def _of_cluster(watched: Watched, resource: str) -> tuple[str, ...]:
    named = () if watched.cluster is None else (f'resource.labels.cluster_name="{watched.cluster}"',)
    return (f'resource.type="{resource}"', *named)


def _all(*clauses: str) -> str:
    return "\n".join(clauses)
