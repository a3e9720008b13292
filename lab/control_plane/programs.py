"""Command lines of etcd, Kubernetes and kwok, with reasons for non-default options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab.control_plane.cluster_side import CONFIG
from lab.control_plane.credentials import SERVICE_ADDRESSES, Credentials

ETCD_SOCKET: Final = "unix://etcd:0"
"""etcd's socket file in the control plane's private folder, without authentication. etcd 3.5 requires the form "name:number"."""
_ETCD_PEER_SOCKET: Final = "unix://peer:0"
REQUESTS_PER_SECOND: Final = 2000
"""Client rate limit of controllers. With the defaults (20 to 50), 1000 nodes would take minutes. Assumed: above what two cores can
answer."""
WORKERS: Final = 20
"""Parallel workers per kind. Assumed: 20 keep two cores busy."""
API_SERVER_GARBAGE: Final = {"GOGC": "300"}
"""Fewer garbage collections. Measured: an eighth less CPU at the start, for 100 MB more memory."""
NODE_MONITOR_GRACE: Final = "24h"
"""Kubernetes' default is 50 s. Nodes have no leases and no heartbeats here; a lost one is deleted, as by Google."""
AUTOSCALER_PERIOD: Final = "2s"
"""Kubernetes' default is 15 s."""
SCHEDULER_BACKOFF_SECONDS: Final = 1
"""Maximum backoff of unschedulable pods, at least 1. Kubernetes' default is 10."""
SIMULATED_NODES: Final = "kwok.x-k8s.io/node=fake"
"""Annotation of the nodes that kwok manages."""


def etcd(binary: Path) -> list[str | Path]:
    """Etcd without fsync: data need not survive a power failure."""
    return [
        binary,
        "--name=rehearsal",
        "--data-dir=etcd-data",
        f"--listen-client-urls={ETCD_SOCKET}",
        f"--advertise-client-urls={ETCD_SOCKET}",
        f"--listen-peer-urls={_ETCD_PEER_SOCKET}",
        f"--initial-advertise-peer-urls={_ETCD_PEER_SOCKET}",
        f"--initial-cluster=rehearsal={_ETCD_PEER_SOCKET}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--quota-backend-bytes=8589934592",
    ]


def api_server(binary: Path, credentials: Credentials, port: int) -> list[str | Path]:
    """The API server, with default feature gates and admission plugins, as in GKE."""
    return [
        binary,
        f"--etcd-servers={ETCD_SOCKET}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={credentials.certificate}",
        f"--tls-private-key-file={credentials.certificate_key}",
        f"--client-ca-file={credentials.authority}",
        f"--token-auth-file={credentials.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        # Otherwise the server refuses privileged pods before Autopilot's rule.
        "--allow-privileged",
        f"--service-account-key-file={credentials.service_account_key}",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        # Calls into the cluster go to the lab's socket. Aggregation needs a client certificate of its proxy; any will do.
        f"--egress-selector-config-file={CONFIG}",
        f"--proxy-client-cert-file={credentials.certificate}",
        f"--proxy-client-key-file={credentials.certificate_key}",
        # A single short-lived server needs no reconciliation, fairness or limits.
        "--endpoint-reconciler-type=none",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--profiling=false",
    ]


def api_server_environment(credentials: Credentials) -> dict[str, str]:
    """Variables beside the user's: aggregated APIs are trusted by the lab's own authority."""
    return {**API_SERVER_GARBAGE, "SSL_CERT_FILE": str(credentials.authority)}


def controller_manager(binary: Path, credentials: Credentials) -> list[str | Path]:
    """Kubernetes' controllers, with limits for 1000 nodes."""
    workers = (
        "deployment",
        "replicaset",
        "job",
        "resource-quota",
        "service-endpoint",
        "endpoint",
        "gc",
        "namespace",
        "serviceaccount-token",
        "statefulset",
        "daemonset",
        "ttl-after-finished",
    )
    return [
        binary,
        f"--kubeconfig={credentials.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={credentials.service_account_key}",
        f"--root-ca-file={credentials.authority}",
        "--use-service-account-credentials=false",
        f"--kube-api-qps={REQUESTS_PER_SECOND}",
        f"--kube-api-burst={REQUESTS_PER_SECOND}",
        f"--node-monitor-grace-period={NODE_MONITOR_GRACE}",
        f"--horizontal-pod-autoscaler-sync-period={AUTOSCALER_PERIOD}",
        *(f"--concurrent-{kind}-syncs={WORKERS}" for kind in workers),
    ]


def scheduler(binary: Path, config: Path) -> list[str | Path]:
    """The scheduler."""
    return [binary, f"--config={config}", "--secure-port=0"]


def scheduler_config(kubeconfig: Path) -> dict[str, Any]:
    """KubeSchedulerConfiguration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": REQUESTS_PER_SECOND, "burst": REQUESTS_PER_SECOND},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": SCHEDULER_BACKOFF_SECONDS,
    }


def kwok(binary: Path, kubeconfig: Path, config: Path) -> list[str | Path]:
    """kwok, as the kubelet of the annotated nodes."""
    return [binary, f"--kubeconfig={kubeconfig}", f"--config={config}", "-v=WARN"]


def kwok_config(stages: Sequence[dict[str, Any]], *, nodes: bool) -> str:
    """Kwok's configuration and stages, one YAML document each. `nodes`: whether it is the kubelet of simulated nodes."""
    options = {
        "manageAllNodes": False,
        "manageNodesWithAnnotationSelector": SIMULATED_NODES if nodes else "kwok.x-k8s.io/node=nobody",
        # Without leases: on a busy machine they lag behind, and kwok plays no pod of a node whose lease it does not hold.
        "nodeLeaseDurationSeconds": 0,
        "nodePlayStageParallelism": WORKERS,
        "podPlayStageParallelism": WORKERS,
    }
    configuration = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    return "\n---\n".join(json.dumps(stage) for stage in (configuration, *stages)) + "\n"
