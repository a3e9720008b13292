"""The API server as a router's pod sees it: everywhere a pod's address is the one it has on this machine.

It passes on the pod's own token, so the permissions are the API server's. Only reads are passed on.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from lab.control_plane.api import Manifest

ANSWER_WALL_SECONDS: Final = 600.0
"""Longest silence of a watch. Source: client-go's and kube-rs' watches end after less than five minutes."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True


@contextlib.contextmanager
def relayed(kubeconfig: Path, address: Callable[[str], str]) -> Iterator[str]:
    """The relay's URL. `address`: the address on this machine of a pod's UID."""
    cluster = json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    host = urlsplit(cluster["server"]).netloc
    tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            kept = {name: self.headers[name] for name in ("Authorization", "Accept") if self.headers[name]}
            connection = http.client.HTTPSConnection(host, context=tls, timeout=ANSWER_WALL_SECONDS)
            # An API server that restarts, or a client that left: the other end sees a closed connection.
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", self.path, headers=kept)
                answer = connection.getresponse()
                self.send_response_only(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
                self.end_headers()
                for part in _parts(answer, "watch" in parse_qs(urlsplit(self.path).query)):
                    self.wfile.write(moved(part, address))

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="router-api", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _parts(answer: http.client.HTTPResponse, watched: bool) -> Iterator[bytes]:
    if watched:
        yield from iter(answer.readline, b"")
    else:
        yield answer.read()


def moved(document: bytes, address: Callable[[str], str]) -> bytes:
    """A document of the API, or an event of a watch, with the pods' addresses on this machine."""
    try:
        found = json.loads(document)
    except ValueError:
        return document
    objects = [found.get("object", found), *(found.get("items") or ())] if isinstance(found, dict) else []
    for one in objects:
        _move(one, address)
    return json.dumps(found).encode() + b"\n"


def _move(manifest: Manifest, address: Callable[[str], str]) -> None:
    status = manifest.get("status")
    if not isinstance(status, dict) or not status.get("podIP"):
        return
    here = address(manifest["metadata"]["uid"])
    status["podIP"], status["podIPs"] = here, [{"ip": here}]


def kubeconfig_for(url: str, token: str, namespace: str) -> str:
    """A kubeconfig for the relay with a service account's token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rehearsal", "cluster": {"server": url}}],
        "users": [{"name": "pod", "user": {"token": token}}],
        "contexts": [{"name": "pod", "context": {"cluster": "rehearsal", "user": "pod", "namespace": namespace}}],
        "current-context": "pod",
    }
    return json.dumps(config)
