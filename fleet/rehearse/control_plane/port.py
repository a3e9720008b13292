"""A port of the loopback interface that nobody else gets, from before the API server starts until after it has ended."""

from __future__ import annotations

import socket


class HeldPort:
    """Bound and never listened on, with SO_REUSEPORT: the kernel gives it to no other program that asks for a free port, and an
    API server started with --permit-port-sharing may bind it too, as often as it is restarted. So two rehearsals cannot get the
    same port between "find a free one" and "use it".
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Let it go."""
        self._socket.close()
