"""Chart registries on loopback: a proxy that answers for the hosts of the lab's charts, and refuses every other.

The engine's environment names it as HTTPS_PROXY. Source: OCI Distribution 1.1, "Pull"; Helm docs, "The Chart Repository Guide".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from lab.charts.package import Chart
from lab.control_plane.credentials import Authority
from lab.control_plane.listener import Listener

_MOST_BYTES: Final = 1 << 16
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
Answer = tuple[str, bytes]
"""Content type and body."""


class Registry(Listener):
    """Serves charts. A context manager."""

    def __init__(self, charts: Sequence[Chart], authority: Authority) -> None:
        self._authority = authority
        self._answers = dict(answer for chart in charts for answer in (_of_oci if chart.is_oci else _of_index)(chart))
        self._hosts = {chart.host for chart in charts}
        super().__init__(socket.create_server(("127.0.0.1", 0)), "chart-registry")
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.refused: list[str] = []
        """Hosts that somebody asked for and that the lab does not have."""

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            method, address, *_ = connection.recv(_MOST_BYTES).decode(errors="replace").split()
            host = address.rsplit(":", 1)[0]
            if method != "CONNECT" or host not in self._hosts:
                self.refused.append(host)
                connection.sendall(b"HTTP/1.1 403 The rehearsal reaches no other host\r\nContent-Length: 0\r\n\r\n")
                return
            connection.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
            with self._authority.served(connection) as secure:
                for asked, path in _requests(secure):
                    secure.sendall(_response(asked, self._answers.get(host + path.split("?")[0])))


def _requests(connection: ssl.SSLSocket) -> Iterator[tuple[str, str]]:
    """Method and path of each request; none has a body."""
    unread = b""
    while True:
        while b"\r\n\r\n" not in unread:
            piece = connection.recv(_MOST_BYTES)
            if not piece:
                return
            unread += piece
        head, _, unread = unread.partition(b"\r\n\r\n")
        method, path, *_ = head.decode(errors="replace").split()
        yield method, path


def _response(method: str, answer: Answer | None) -> bytes:
    if answer is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    kind, body = answer
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nDocker-Content-Digest: {_digest(body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if method == "HEAD" else body)


def _digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def _of_oci(chart: Chart) -> Iterator[tuple[str, Answer]]:
    """Manifest, configuration and layer, by host and path."""
    at, config = f"{chart.host}/v2/{chart.path}", json.dumps(dict(chart.metadata)).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _blob(_CONFIG, config),
            "layers": [_blob(_LAYER, chart.archive)],
        }
    ).encode()
    tags = json.dumps({"name": chart.path, "tags": [chart.version]}).encode()
    yield f"{chart.host}/v2/", ("application/json", b"{}")
    yield f"{at}/tags/list", ("application/json", tags)
    for reference in (chart.version, _digest(manifest)):
        yield f"{at}/manifests/{reference}", (_MANIFEST, manifest)
    for body in (config, chart.archive):
        yield f"{at}/blobs/{_digest(body)}", ("application/octet-stream", body)


def _blob(kind: str, body: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(body), "size": len(body)}


def _of_index(chart: Chart) -> Iterator[tuple[str, Answer]]:
    """The index and the archive, by host and path."""
    file = f"{chart.metadata['name']}-{chart.version}.tgz"
    entry = {**chart.metadata, "urls": [file], "digest": _digest(chart.archive).removeprefix("sha256:")}
    index = {"apiVersion": "v1", "entries": {chart.metadata["name"]: [entry]}}
    yield f"{chart.host}/{chart.path}/index.yaml", ("text/yaml", yaml.safe_dump(index).encode())
    yield f"{chart.host}/{chart.path}/{file}", ("application/gzip", chart.archive)
