"""An HTTPS server on loopback that the API server calls in place of a simulated pod."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.control_plane.api import Manifest
from lab.simulators.local_server import Answer, Request, served

Respond = Callable[[str, Manifest | None], tuple[int, Manifest]]
"""From a request's path with query, and its JSON body if any, to the answer's status and body."""


@dataclass(frozen=True, slots=True)
class Loopback:
    """A running server."""

    port: int
    authority: str
    """CA bundle in base64."""


@contextmanager
def loopback(title: str, respond: Respond, *names: str) -> Iterator[Loopback]:
    """HTTPS with JSON. `names`: additional host names in its certificate."""
    # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
    import trustme

    authority = trustme.CA(organization_name=f"vllm-fleet rehearsal, {title}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", *names).configure_cert(context)

    def answer(request: Request) -> Answer:
        body = json.loads(request.content) if request.method == "POST" else None
        return Answer.of_json(*respond(request.url, body))

    with served(answer, tls=context, keep_alive=True) as port:
        yield Loopback(port, base64.b64encode(authority.cert_pem.bytes()).decode())


def failure(code: int, reason: str, message: str) -> tuple[int, Manifest]:
    """A failure Status."""
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return code, {**status, "code": code, "reason": reason, "message": message}


def reviewed(review: Manifest, **response: Any) -> tuple[int, Manifest]:
    """An answer to an AdmissionReview."""
    verdict = {"uid": review["request"]["uid"], **response}
    return 200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict}
