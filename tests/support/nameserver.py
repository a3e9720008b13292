"""A nameserver on loopback for a real HAProxy's resolver: it answers each question for an address with the same ones."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Final

_HEADER: Final = struct.Struct("!6H")
_TAIL: Final = struct.Struct("!2H")
_ANSWER: Final = struct.Struct("!3HIH4s")
_A, _IN, _OPT, _POINTER = 1, 1, 41, 0xC00C
_RESPONSE: Final = 0x8580
_TTL_SECONDS: Final = 1
_LARGEST_ANSWER: Final = 8192
_OPT_RECORD: Final = b"\0" + struct.pack("!HHIH", _OPT, _LARGEST_ANSWER, 0, 0)
# Source of the format: RFC 1035, section 4; RFC 6891, section 6.1.


@contextlib.contextmanager
def nameserver(addresses: Sequence[str]) -> Iterator[str]:
    """Serve these addresses for every name; ADDRESS:PORT."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.2)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    query, client = listening.recvfrom(_LARGEST_ANSWER)
                    listening.sendto(_answered(query, addresses), client)

        thread = threading.Thread(target=serve, name="nameserver", daemon=True)
        thread.start()
        try:
            yield "{}:{}".format(*listening.getsockname())
        finally:
            over.set()
            thread.join()


def _answered(query: bytes, known: Sequence[str]) -> bytes:
    """The answer to one question; addresses of version 4 only."""
    number, flags, *_, additional = _HEADER.unpack_from(query)
    end = query.index(b"\0", _HEADER.size) + 1
    addresses = known if _TAIL.unpack_from(query, end) == (_A, _IN) else ()
    end += _TAIL.size
    head = _HEADER.pack(number, _RESPONSE | flags & 0x100, 1, len(addresses), 0, bool(additional))
    records = b"".join(
        _ANSWER.pack(_POINTER, _A, _IN, _TTL_SECONDS, 4, socket.inet_aton(address)) for address in addresses
    )
    return head + query[_HEADER.size : end] + records + (_OPT_RECORD if additional else b"")
