"""A socket whose connections the lab answers."""

from __future__ import annotations

import socket
import threading
from typing import Self


class Listener:
    """Answers each connection in a thread of its own. A context manager, which closes the socket."""

    def __init__(self, listening: socket.socket, name: str) -> None:
        """`name`: of the thread that accepts."""
        self._socket, self._name = listening, name

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name=self._name, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # Closed.
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer it and close it. For subclasses."""
        raise NotImplementedError
