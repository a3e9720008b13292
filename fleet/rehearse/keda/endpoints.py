"""What the API server asks of KEDA: external metrics, through an APIService, and the admission of ScaledObjects.

The aggregator resolves a Service of type ExternalName to its host (k8s.io/apiserver v0.36.3, pkg/util/proxy, ResolveCluster), so a
server on loopback can stand where KEDA's metrics server would.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from fleet.rehearse.api import Manifest
from fleet.rehearse.keda.triggers import OWNER_LABEL, TriggerError, quantity

NAMESPACE: Final = "keda"
GROUP_VERSION: Final = "external.metrics.k8s.io/v1beta1"
API_SERVICE: Final = "v1beta1.external.metrics.k8s.io"
LOOPBACK: Final = "keda-on-loopback"
"""Service of type ExternalName that leads to this process; in no real cluster."""
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


class Endpoints:
    """A context manager: an HTTPS server on loopback, and the objects that lead to it."""

    def __init__(
        self, metric: Callable[[str, str, str], float], refusal: Callable[[Manifest], tuple[str, list[str]]]
    ) -> None:
        """`metric`: value by namespace, ScaledObject and name; raises TriggerError. `refusal`: why a ScaledObject is refused, or
        nothing, and warnings.
        """
        self._metric, self._refusal = metric, refusal

    def __enter__(self) -> Endpoints:
        import trustme

        authority = trustme.CA(organization_name="vllm-fleet rehearsal, KEDA")
        self._authority = base64.b64encode(authority.cert_pem.bytes()).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(f"{LOOPBACK}.{NAMESPACE}.svc", "127.0.0.1").configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._metric, self._refusal))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, name="keda-endpoints", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def manifests(self) -> list[Manifest]:
        """The APIService and the webhook as KEDA's installation has them, led to this process."""
        port = self._server.server_address[1]
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
                    "service": {"name": LOOPBACK, "namespace": NAMESPACE, "port": port},
                    "caBundle": self._authority,
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
                        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate", "caBundle": self._authority},
                        # As KEDA installs it: whoever applies before the webhook answers is not refused.
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


def _handler(
    metric: Callable[[str, str, str], float], refusal: Callable[[Manifest], tuple[str, list[str]]]
) -> type[BaseHTTPRequestHandler]:
    class Keda(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = unquote(url.path).strip("/").split("/")
            if parts[:3] != ["apis", *GROUP_VERSION.split("/")]:
                self._answer(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404})
                return
            if len(parts) != 6:
                resources = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION}
                self._answer(200, {**resources, "resources": _RESOURCES})
                return
            namespace, name = parts[4], parts[5]
            selector = parse_qs(url.query).get("labelSelector", [""])[0]
            owner = dict(one.partition("=")[::2] for one in selector.split(",")).get(OWNER_LABEL, "")
            try:
                value = metric(namespace, owner, name)
            except TriggerError as error:
                status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 500}
                self._answer(500, {**status, "reason": "InternalError", "message": str(error)})
                return
            item = {
                "metricName": name,
                "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "value": quantity(value),
            }
            self._answer(
                200,
                {"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": [item]},
            )

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            said, warnings = refusal(request["object"])
            response: Manifest = {"uid": request["uid"], "allowed": not said, "warnings": warnings}
            if said:
                response["status"] = {"code": 403, "reason": "Forbidden", "message": said}
            self._answer(200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

        def _answer(self, code: int, body: Manifest) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Nobody reads standard error."""

    return Keda
