"""An HTTP server on loopback, in a thread of its own: a function answers each request."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request."""

    method: str
    url: str
    """Path and query, as sent."""
    headers: Message[str, str]
    content: bytes

    @property
    def path(self) -> str:
        """Without the query; names are still quoted."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """The first value of each parameter."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.url).query).items()}


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, status: int, body: Any) -> Answer:
        """A JSON document."""
        return cls(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """All pods of a benchmark may connect at once."""


@contextlib.contextmanager
def served(
    answer: Callable[[Request], Answer | None], *, tls: ssl.SSLContext | None = None, keep_alive: bool = False
) -> Iterator[int]:
    """The server's port. A request whose answer is None gets none: its connection is closed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"
        wbufsize = -1  # Head and body in one packet: a second one waits 40 ms for the client's delayed acknowledgement.

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            content = self.rfile.read(length)
            if len(content) < length:  # Its sender ended in the middle: no server takes half a body for a request.
                self.close_connection = True
                return
            said = answer(Request(method=self.command, url=self.path, headers=self.headers, content=content))
            if said is None:
                self.close_connection = True
                return
            self.send_response_only(said.status)
            for name, value in {"Content-Length": str(len(said.content)), **said.headers}.items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # The client may have gone.
                self.end_headers()
                self.wfile.write(said.content)
                self.wfile.flush()

        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the base class

    with _Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
