"""Sends one document to the servers, and says what its answer means for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

Kind = Literal["answer", "refused", "failed", "timeout"]
OF_THE_FLEET = frozenset({429, 502, 503, 504})
"""Statuses of a fleet without a free server. Source: HAProxy, Google's load balancers and vLLM while it loads."""
SETUP = frozenset({401, 403, 404, 405, 407, 421})
"""Refusals that also come from a wrong key, a missing route or another model: the document is asked again, so that one wrong setting
does not end a whole batch."""
KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A machine that vanished without a word is noticed after 40 s, not after the longest answer."""
MOST_MESSAGE = 500
"""Characters of an error's message that a result keeps."""


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt.

    `answer`: it ends the document, with an answer or with a refusal of its own. `refused`: no server took it. `failed`: a server took
    it and failed, which the document may be the reason of. `timeout`: no answer in time.
    """

    kind: Kind
    status: int = 0
    """HTTP status; 0 without an answer."""
    body: Any = None
    request_id: str = ""
    code: str = ""
    """Why the document has no good answer; empty with one."""
    message: str = ""


class Endpoint:
    """The servers' address. One connection for each request, so that requests spread over the servers."""

    def __init__(self, url: str, path: str, *, key: str | None, connect_seconds: float, request_seconds: float) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        self._path = f"{parts.path.rstrip('/')}{path}"
        self._connect_seconds, self._request_seconds = connect_seconds, request_seconds
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def send(self, body: bytes) -> Outcome:
        """One attempt."""
        connection = self._connection(self._host, self._port, timeout=self._connect_seconds)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            return Outcome("refused", code="unreachable", message=str(error) or type(error).__name__)
        try:
            _keep_alive(connection.sock)
            connection.sock.settimeout(self._request_seconds)
            connection.request("POST", self._path, body, self._headers)
            with connection.getresponse() as response:
                status, content, request_id = response.status, response.read(), response.headers.get("x-request-id")
        except (OSError, http.client.HTTPException) as error:
            # With a number it is the kernel's: a peer that vanished.
            if isinstance(error, TimeoutError) and error.errno is None:
                return Outcome("timeout", code="timeout", message=f"no answer within {self._request_seconds:g} s")
            return Outcome("failed", code="connection-broken", message=type(error).__name__)
        finally:
            connection.close()
        return outcome_of(status, content, request_id or "")


def outcome_of(status: int, content: bytes, request_id: str) -> Outcome:
    """What an HTTP answer means."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if status == 200:
        if not isinstance(body, dict):
            return Outcome("failed", code="not-json", message="the answer is not a JSON object")
        return Outcome("answer", status, body, request_id or str(body.get("id") or ""))
    said = {"body": body, "request_id": request_id, "code": f"http-{status}", "message": _message(status, body)}
    if status in OF_THE_FLEET:
        return Outcome("refused", status, **said)
    if 400 <= status < 500 and status not in SETUP | {408, 425}:
        return Outcome("answer", status, **said)
    return Outcome("failed", status, **said)


def _message(status: int, body: Any) -> str:
    error = body.get("error", body) if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message[:MOST_MESSAGE] if isinstance(message, str) else f"HTTP {status}"


def _keep_alive(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            if hasattr(socket, name):  # not on every laptop
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
