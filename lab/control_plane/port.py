"""A reserved loopback port."""

from __future__ import annotations

import socket


class HeldPort:
    """A port bound with SO_REUSEPORT but not listened on.

    The kernel gives it to no program that requests a free port, but an API server with --permit-port-sharing may bind it, also
    after a restart. Two rehearsals therefore never get the same port.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Release the port."""
        self._socket.close()
