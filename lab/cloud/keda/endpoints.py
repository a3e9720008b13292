"""KEDA's endpoints for the API server: external metrics by an APIService, and admission of ScaledObjects.

The aggregator resolves a Service of type ExternalName to its host (k8s.io/apiserver v0.36.3, pkg/util/proxy, ResolveCluster), so a
loopback server can replace KEDA's metrics server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from lab.cloud.keda.triggers import OWNER_LABEL, TriggerError, quantity
from lab.cloud.loopback import Loopback, failure, loopback, reviewed
from lab.control_plane.api import Manifest

NAMESPACE: Final = "keda"
GROUP_VERSION: Final = "external.metrics.k8s.io/v1beta1"
API_SERVICE: Final = "v1beta1.external.metrics.k8s.io"
LOOPBACK: Final = "keda-on-loopback"
"""Service of type ExternalName for this process; not in a real cluster."""
_WEBHOOK: Final = "vscaledobject.kb.io"
_RESOURCES: Final = [
    {
        "name": "externalmetrics",
        "singularName": "",
        "namespaced": True,
        "kind": "ExternalMetricValueList",
        "verbs": ["get"],
    }
]


Metric = Callable[[str, str, str], float]
"""Value by namespace, ScaledObject and name. Raises TriggerError."""
Refusal = Callable[[Manifest], tuple[str, list[str]]]
"""A ScaledObject's refusal, empty if it is accepted, and warnings."""


@contextmanager
def endpoints(metric: Metric, refusal: Refusal) -> Iterator[list[Manifest]]:
    """A loopback server; the objects that refer to it."""
    respond = partial(_answer, metric, refusal)
    with loopback("keda-endpoints", respond, f"{LOOPBACK}.{NAMESPACE}.svc") as server:
        yield _manifests(server)


def _answer(metric: Metric, refusal: Refusal, path: str, review: Manifest | None) -> tuple[int, Manifest]:
    if review is not None:
        refused, warnings = refusal(review["request"]["object"])
        status = {"code": 403, "reason": "Forbidden", "message": refused}
        return reviewed(review, allowed=not refused, warnings=warnings, **({"status": status} if refused else {}))
    url = urlsplit(path)
    parts = unquote(url.path).strip("/").split("/")
    if parts[:3] != ["apis", *GROUP_VERSION.split("/")]:
        return failure(404, "NotFound", "the server could not find the requested resource")
    if len(parts) != 6:
        resources = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION}
        return 200, {**resources, "resources": _RESOURCES}
    selector = parse_qs(url.query).get("labelSelector", [""])[0]
    owner = dict(one.partition("=")[::2] for one in selector.split(",")).get(OWNER_LABEL, "")
    try:
        value = quantity(metric(parts[4], owner, parts[5]))
    except TriggerError as error:
        return failure(500, "InternalError", str(error))
    item = {"metricName": parts[5], "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "value": value}
    return 200, {"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": [item]}


def _manifests(server: Loopback) -> list[Manifest]:
    """KEDA's APIService and webhook, for this process."""
    service = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": LOOPBACK, "namespace": NAMESPACE},
            "spec": service,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": GROUP_VERSION.partition("/")[0],
                "version": GROUP_VERSION.partition("/")[2],
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": LOOPBACK, "namespace": NAMESPACE, "port": server.port},
                "caBundle": server.authority,
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": LOOPBACK},
            "webhooks": [
                {
                    "name": _WEBHOOK,
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{server.port}/validate",
                        "caBundle": server.authority,
                    },
                    # As in KEDA's installation: applies succeed before the webhook answers.
                    "failurePolicy": "Ignore",
                    "rules": [
                        {
                            "apiGroups": ["keda.sh"],
                            "apiVersions": ["v1alpha1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["scaledobjects"],
                        }
                    ],
                    "sideEffects": "None",
                    "timeoutSeconds": 10,
                }
            ],
        },
    ]
