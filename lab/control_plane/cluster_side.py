"""Where the API server's calls into the cluster go: a socket of the lab, never an address.

An API server dials Services for aggregated APIs and webhooks, and nodes for logs. Nothing stands at these addresses, and a machine may
route them to somebody else. An egress selector sends every such call here. An aggregated API answers that it has no resources: an
unavailable one would keep every namespace Terminating. Anything else, a webhook or a kubelet, gets 404.
Source of the selector: Kubernetes docs, "Set up Konnectivity service"; k8s.io/apiserver, pkg/server/egressselector.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from lab.control_plane.credentials import Authority

SOCKET: Final = "cluster.sock"
"""Without its folder, which is the API server's working folder: a socket's path may have some hundred bytes, and folders for temporary
files are longer."""
CONFIG: Final = "egress.json"
_MOST_BYTES: Final = 1 << 16
_GROUP: Final = re.compile(rb"GET /apis/([^/ ?]+/[^/ ?]+)[ ?]")
_CONNECT: Final = re.compile(rb"CONNECT (\S+) HTTP/1\.1\r\n")
_BIND: Final = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).bind(sys.argv[2])"


def egress_config() -> dict[str, Any]:
    """EgressSelectorConfiguration of an API server whose cluster is the socket in its working folder."""
    transport = {"uds": {"udsName": SOCKET}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        ],
    }


class ClusterSide:
    """Answers on the socket. A context manager."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        """`authority`: signs for every name that is called, as the API server's trusted one."""
        self._authority = authority
        self._socket = _listening(folder)
        self.asked: list[str] = []
        """Addresses that the API server wanted to dial, in order."""

    def __enter__(self) -> ClusterSide:
        threading.Thread(target=self._accept, name="cluster-side", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # Closed.
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            asked = _CONNECT.match(connection.recv(_MOST_BYTES))
            if asked is None:
                return
            self.asked.append(asked[1].decode())
            connection.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
            with self._authority.served(connection) as secure:
                while head := secure.recv(_MOST_BYTES):
                    secure.sendall(_answered(head))


def _listening(folder: Path) -> socket.socket:
    """The socket in this folder, bound by a process that stands there: this one's working folder is every thread's."""
    made = socket.socket(socket.AF_UNIX)
    try:
        number = made.fileno()
        command = [sys.executable, "-I", "-S", "-c", _BIND, str(number), SOCKET]
        subprocess.run(command, cwd=folder, pass_fds=(number,), check=True)
        made.listen(64)
    except BaseException:
        made.close()
        raise
    return made


def _answered(head: bytes) -> bytes:
    group = _GROUP.match(head)
    if group is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    listed: dict[str, Any] = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group[1].decode(),
        "resources": [],
    }
    body = json.dumps(listed).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
