"""An HTTPS server on loopback that the API server calls in place of a simulated pod."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lab.control_plane.api import Manifest

Answer = Callable[[str, Manifest | None], tuple[int, Manifest]]
"""From a request's path with query, and its JSON body if any, to the answer's status and body."""


class Loopback:
    """HTTPS with JSON. A context manager; `port` and `authority` (CA bundle in base64) are set on entry."""

    port: int
    authority: str

    def __init__(self, title: str, answer: Answer, *names: str) -> None:
        """`names`: additional host names in its certificate."""
        self._title, self._answer, self._names = title, answer, names

    def __enter__(self) -> Loopback:
        import trustme

        authority = trustme.CA(organization_name=f"vllm-fleet rehearsal, {self._title}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", *self._names).configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port, self.authority = (
            self._server.server_address[1],
            base64.b64encode(authority.cert_pem.bytes()).decode(),
        )
        threading.Thread(target=self._server.serve_forever, name=self._title, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def failure(code: int, reason: str, message: str) -> tuple[int, Manifest]:
    """A failure Status."""
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return code, {**status, "code": code, "reason": reason, "message": message}


def reviewed(review: Manifest, **response: Any) -> tuple[int, Manifest]:
    """An answer to an AdmissionReview."""
    verdict = {"uid": review["request"]["uid"], **response}
    return 200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict}


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(*answer(self.path, None))

        def do_POST(self) -> None:
            self._send(*answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def _send(self, code: int, body: Manifest) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler
