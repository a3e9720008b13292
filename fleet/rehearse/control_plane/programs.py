"""Command lines of etcd, the Kubernetes programs and kwok: what differs from the defaults, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fleet.rehearse.control_plane.credentials import SERVICE_ADDRESSES, Credentials

ETCD_SOCKET: Final = "unix://etcd:0"
"""etcd listens on this socket file in the control plane's folder, which nobody else may enter: it asks for no password. The form
"name:number" is all that etcd 3.5 takes."""
_ETCD_PEER_SOCKET: Final = "unix://peer:0"
REQUESTS_PER_SECOND: Final = 2000
"""What a controller may send. Kubernetes' own limits (20 to 50) are for a shared API server; 1000 nodes would take minutes.
Assumed: far above what two cores can answer."""
WORKERS: Final = 20
"""Objects of a kind that a controller works on at once. Assumed: 20 keep two cores busy."""
LEASE_SECONDS: Final = 160
"""Duration of a node's lease; kwok renews it after a quarter of it. The kubelet's own is 40: 1000 nodes would cost a third of a
core for nothing. Measured: 3 ms of the API server for a renewal."""
API_SERVER_ENVIRONMENT: Final = {"GOGC": "300"}
"""Go's collector runs a third as often. Measured: an eighth less CPU at the start, for 100 MB more."""
NODE_MONITOR_GRACE_SECONDS: Final = 240
"""A node silent for so long is marked unreachable. Kubernetes' own is 50. Simulated machines are lost by deleting their nodes,
as Google does, and a busy computer must not look like a dead node: six renewals fit."""
SCHEDULER_BACKOFF_SECONDS: Final = 1
"""Longest wait before an unschedulable pod is tried again after something changed. Kubernetes' own is 10: ten minutes of a
clock that runs 60 times faster. At least 1."""
SIMULATED_NODES: Final = "kwok.x-k8s.io/node=fake"
"""Annotation of the nodes that kwok plays; it leaves all others alone."""


def etcd(binary: Path) -> list[str | Path]:
    """The store. No fsync: it need not survive a power cut, only an API server that is killed."""
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
    """The API server: default feature gates and default admission plugins, as GKE runs them."""
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
        # Without this the server itself refuses privileged pods, and Autopilot's rule about them would never be asked.
        "--allow-privileged",
        f"--service-account-key-file={credentials.service_account_key}",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        # One server, gone in a moment: nothing to reconcile, nobody to be fair to, no limit to share.
        "--endpoint-reconciler-type=none",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--profiling=false",
    ]


def controller_manager(binary: Path, credentials: Credentials, autoscaler_wall_seconds: float) -> list[str | Path]:
    """Kubernetes' controllers, with quotas for 1000 nodes. `autoscaler_wall_seconds`: how often an HPA is looked at."""
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
        f"--node-monitor-grace-period={NODE_MONITOR_GRACE_SECONDS}s",
        f"--horizontal-pod-autoscaler-sync-period={autoscaler_wall_seconds}s",
        *(f"--concurrent-{kind}-syncs={WORKERS}" for kind in workers),
    ]


def scheduler(binary: Path, config: Path) -> list[str | Path]:
    """The scheduler; what it may do stands in its configuration."""
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
    """kwok, playing the kubelet of the annotated nodes and of no others."""
    return [binary, f"--kubeconfig={kubeconfig}", f"--config={config}", "-v=WARN"]


def kwok_config(stages: Sequence[dict[str, Any]]) -> str:
    """Kwok's configuration and the stages that nodes and pods go through, one document each."""
    options = {
        "manageAllNodes": False,
        "manageNodesWithAnnotationSelector": SIMULATED_NODES,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "nodePlayStageParallelism": WORKERS,
        "podPlayStageParallelism": WORKERS,
        "nodeLeaseParallelism": WORKERS,
    }
    configuration = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    return "\n---\n".join(json.dumps(one) for one in (configuration, *stages)) + "\n"
