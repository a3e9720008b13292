"""Where steps leave what they have to send: at once, or together when several steps are due at one moment.

Handing bytes to the kernel is most of what a chunk costs a server. A machine that is late with its steps makes up for it by
sending those that are due in one piece, as a front end does that comes late to its engine's output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Outbox:
    """Of one server."""

    def __init__(self) -> None:
        self._held: dict[asyncio.WriteTransport, list[bytes]] | None = None

    def write(self, transport: asyncio.WriteTransport, content: bytes) -> None:
        """Send it, now or with what else goes there."""
        if self._held is None:
            transport.write(content)
        else:
            self._held.setdefault(transport, []).append(content)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Until the end, everything is kept; then each connection gets its own in one piece."""
        self._held = {}
        try:
            yield
        finally:
            held, self._held = self._held, None
            for transport, contents in held.items():
                if not transport.is_closing():
                    transport.write(b"".join(contents))
