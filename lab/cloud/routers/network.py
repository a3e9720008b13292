"""The pods' network of one stage on this machine: a loopback address for each pod, and a nameserver that knows the headless Services.

Linux answers on every address of 127.0.0.0/8, so each pod has one of its own and its programs keep their ports. What is 127.0.0.1 in a
pod is a second address: a program that listens there only is not reached at the pod's address, as in a pod.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lab.results.result import RehearsalError

Resolve = Callable[[str], Sequence[str] | None]
"""From a name, without a final dot, to its addresses; None if it does not exist."""
NAMESERVER_PORT: Final = 5300
_BLOCKS: Final = range(16, 80)
"""Second number of the pods' addresses: one for each stage on this machine."""
_OWN: Final = 128
"""Added to it for what is 127.0.0.1 in a pod."""
_PODS: Final = 250
_POLL_SECONDS: Final = 0.2

_HEADER: Final = struct.Struct("!6H")
_TAIL: Final = struct.Struct("!2H")
_ANSWER: Final = struct.Struct("!3HIH4s")
_A, _IN, _OPT, _POINTER = 1, 1, 41, 0xC00C
_RESPONSE, _NO_SUCH_NAME = 0x8580, 3
TTL_SECONDS: Final = 1
"""Of an address."""
_LARGEST_ANSWER: Final = 8192
_OPT_RECORD: Final = b"\0" + struct.pack("!HHIH", _OPT, _LARGEST_ANSWER, 0, 0)
# Source of the format: RFC 1035, section 4; RFC 6891, section 6.1.


class PodNetwork:
    """A context manager. Enter it before a pod gets an address."""

    def __init__(self) -> None:
        self.resolve: Resolve = lambda _: None
        """Answers the nameserver's questions; from its thread."""
        self._addresses: dict[str, tuple[str, str]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="nameserver", daemon=True)

    def __enter__(self) -> PodNetwork:
        """Raises RehearsalError where the system has one loopback address only."""
        self._block, self._socket = _own_block()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    @property
    def nameserver(self) -> str:
        """ADDRESS:PORT."""
        address, port = self._socket.getsockname()
        return f"{address}:{port}"

    def address(self, uid: str) -> str:
        """The address of the pod with this UID."""
        return self._of(uid)[0]

    def own(self, uid: str) -> str:
        """What is 127.0.0.1 in the pod with this UID."""
        return self._of(uid)[1]

    def _of(self, uid: str) -> tuple[str, str]:
        with self._lock:
            if uid not in self._addresses:
                rows, place = divmod(next(self._numbers), _PODS)
                rest = f"{rows + 1}.{place + 1}"
                self._addresses[uid] = f"127.{self._block}.{rest}", f"127.{self._block + _OWN}.{rest}"
            return self._addresses[uid]

    def _serve(self) -> None:
        self._socket.settimeout(_POLL_SECONDS)
        while not self._stop.is_set():
            # What is no question gets no answer.
            with contextlib.suppress(OSError, ValueError, IndexError, struct.error):
                query, client = self._socket.recvfrom(_LARGEST_ANSWER)
                self._socket.sendto(answered(query, self.resolve), client)


def answered(query: bytes, resolve: Resolve) -> bytes:
    """The answer to one question; addresses of version 4 only. Raises ValueError for what is no question."""
    if len(query) < _HEADER.size + 5:
        raise ValueError("not a DNS question")
    number, flags, *_, additional = _HEADER.unpack_from(query)
    name, end = _name(query)
    type_, class_ = _TAIL.unpack_from(query, end)
    end += _TAIL.size
    found = resolve(name)
    addresses = (found or ()) if (type_, class_) == (_A, _IN) else ()
    code = _NO_SUCH_NAME if found is None else 0
    head = _HEADER.pack(number, _RESPONSE | flags & 0x100 | code, 1, len(addresses), 0, bool(additional))
    records = b"".join(
        _ANSWER.pack(_POINTER, _A, _IN, TTL_SECONDS, 4, socket.inet_aton(address)) for address in addresses
    )
    return head + query[_HEADER.size : end] + records + (_OPT_RECORD if additional else b"")


def _name(query: bytes) -> tuple[str, int]:
    labels, at = list[str](), _HEADER.size
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
        at += 1 + length
        if at >= len(query) or length > 63:
            raise ValueError("not a DNS question")
    return ".".join(labels), at + 1


def _own_block() -> tuple[int, socket.socket]:
    """A block of addresses that no other stage on this machine has, and the nameserver's socket, which keeps it."""
    for block in _blocks():
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            listening.bind((f"127.{block}.0.1", NAMESERVER_PORT))
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise RehearsalError(
                f"a stack with routers cannot be rehearsed here: 127.{block}.0.1 is no address of this machine ({error}). "
                "Linux has every address of 127.0.0.0/8; rehearse there"
            ) from error
        return block, listening
    raise RehearsalError(
        f"a stack with routers cannot be rehearsed: port {NAMESERVER_PORT} is in use on {len(_BLOCKS)} loopback addresses"
    )


def _blocks() -> Iterator[int]:
    first = os.getpid() % len(_BLOCKS)
    yield from (_BLOCKS[(first + place) % len(_BLOCKS)] for place in range(len(_BLOCKS)))
