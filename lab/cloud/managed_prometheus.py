"""Simulated operator of managed Prometheus: a pod that needs a node, and a webhook that answers only while the pod is Ready.

Source: GoogleCloudPlatform/prometheus-engine, main of July 2026, charts/operator/templates: deployment.yaml and
validatingwebhookconfiguration.yaml (rules on CREATE and UPDATE, failurePolicy Fail; scrapes have had none since v0.16). GKE runs
it in gke-gmp-system.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from lab.cloud.autopilot.policies import SYSTEM_NAMESPACES
from lab.cloud.loopback import Loopback, failure, loopback, reviewed
from lab.cloud.timings import Timings
from lab.cloud.world import World, is_ready
from lab.control_plane.api import UNANSWERED, ApiRefusedError, Manifest
from lab.control_plane.mirror import Change
from lab.results.result import RehearsalError

SYSTEM_NAMESPACE: Final = "gke-gmp-system"
OPERATOR: Final = "gmp-operator"
FIELD_MANAGER: Final = "gke-platform-stand-in"
IN_FORCE_SECONDS: Final = 30.0
"""Timeout until the API server uses the webhook, wall time. Measured: under 1 s."""
LAG_SECONDS: Final = 25.0
"""Wall time that Kubernetes may need to start the operator after its simulated start. Assumed."""
_PATH: Final = "/validate/monitoring.googleapis.com/v1/rules"
_POLL_SECONDS: Final = 0.02


class ManagedPrometheus:
    """Construct it before the world is entered, then enter it inside: entry installs the operator and an active webhook."""

    def __init__(self, world: World, timings: Timings) -> None:
        self._world, self._timings = world, timings
        self._due: float | None = None
        self._stack = contextlib.ExitStack()
        world.pods.listen(self._pod)

    def __enter__(self) -> ManagedPrometheus:
        with contextlib.ExitStack() as opened:
            server = opened.enter_context(loopback("gmp-webhook", self._judge))
            for manifest in self._manifests(server):
                self._world.api.apply(manifest, field_manager=FIELD_MANAGER, force=True)
            self._wait_until_asked()
            self._stack = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _pod(self, _change: Change, manifest: Manifest, _before: Manifest | None) -> None:
        """The first user pod also causes the operator's node to be created."""
        if self._due is None and manifest["metadata"]["namespace"] not in SYSTEM_NAMESPACES:
            times = self._timings
            start = times.autoscaler_scan_seconds + times.cpu_node_start_seconds[1] + times.image_pull_seconds
            self._due = self._world.clock.now_seconds() + start + times.probe_seconds

    def _answers(self) -> bool:
        """Whether the operator is Ready; waits for Kubernetes, which runs in wall time, if it should be by simulated time."""
        deadline = time.monotonic() + LAG_SECONDS
        while not self._is_ready():
            due = self._due is not None and self._due <= self._world.clock.now_seconds()
            if not due or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _judge(self, _path: str, review: Manifest | None) -> tuple[int, Manifest]:
        if review is not None and self._answers():
            return reviewed(review, allowed=True)
        return failure(503, "ServiceUnavailable", f'no endpoints available for service "{OPERATOR}"')

    def _is_ready(self) -> bool:
        pods = self._world.pods.all()
        return any(pod["metadata"]["namespace"] == SYSTEM_NAMESPACE and is_ready(pod) for pod in pods)

    def _manifests(self, server: Loopback) -> list[Manifest]:
        labels = {"app": OPERATOR}
        namespaced = {"name": OPERATOR, "namespace": SYSTEM_NAMESPACE}
        pod = {
            "containers": [
                {
                    "name": "operator",
                    "image": "gke.gcr.io/prometheus-engine/operator:v0.17.3-gke.0",
                    "resources": {"requests": {"cpu": "1m", "memory": "16M"}, "limits": {"memory": "2G"}},
                    "readinessProbe": {"httpGet": {"path": "/readyz", "port": 18081}},
                }
            ],
            # Tolerates neither GPU nor compute-class taints: it needs a general-purpose node.
            "tolerations": [{"key": "components.gke.io/gke-managed-components", "operator": "Exists"}],
        }
        webhook = {
            "name": f"validate.rules.{OPERATOR}.{SYSTEM_NAMESPACE}.monitoring.googleapis.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.port}{_PATH}",
                "caBundle": server.authority,
            },
            "failurePolicy": "Fail",
            "timeoutSeconds": 30,  # Longer than LAG_SECONDS; Google uses the default, 10.
            "rules": [
                {
                    "apiGroups": ["monitoring.googleapis.com"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["rules"],
                }
            ],
            "sideEffects": "None",
        }
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": f"{OPERATOR}.{SYSTEM_NAMESPACE}.monitoring.googleapis.com"},
                "webhooks": [webhook],
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {**namespaced, "labels": labels},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
        ]

    def _wait_until_asked(self) -> None:
        """Wait until the API server's watch has picked up the webhook."""
        deadline = time.monotonic() + IN_FORCE_SECONDS
        while not self._probe_is_refused():
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"the webhook of managed Prometheus is not active {IN_FORCE_SECONDS:.0f} s after it was applied"
                )
            time.sleep(_POLL_SECONDS)

    def _probe_is_refused(self) -> bool:
        probe = {
            "apiVersion": "monitoring.googleapis.com/v1",
            "kind": "Rules",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"groups": [{"name": "probe", "interval": "30s", "rules": [{"record": "probe", "expr": "1"}]}]},
        }
        try:
            self._world.api.raw(
                "POST", "/apis/monitoring.googleapis.com/v1/namespaces/default/rules?dryRun=All", body=probe
            )
        except ApiRefusedError as refusal:
            if UNANSWERED in refusal.message:
                return True
            raise
        return self._is_ready()
