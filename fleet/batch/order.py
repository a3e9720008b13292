"""The order of a batch's documents: those with the same beginning are neighbours, so that servers find it in their prefix caches."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fleet.batch.requests import Request
    from fleet.batch.scan import Line

LEVELS: Final = (256, 1_024, 4_096, 16_384)
"""Bytes of a prompt's beginning that are compared, the shortest first. Assumed: a common beginning below some 60 tokens saves nothing."""


class Order:
    """Where each line is, and hashes of its prompt's beginnings: 28 bytes a line, and 100 more while they are sorted."""

    def __init__(self) -> None:
        self._offsets, self._numbers = array("Q"), array("I")
        self._hashes = array("I")

    def add(self, line: Line, request: Request) -> None:
        """Add the next line of the file."""
        self._offsets.append(line.offset)
        self._numbers.append(line.number)
        self._hashes.frombytes(b"".join(_hashes(request.texts)))

    def numbers_digest(self) -> str:
        """SHA-256 of the lines' numbers."""
        return digest_of(self._numbers)

    def sorted(self) -> tuple[array[int], array[int]]:
        """Offsets and numbers of the lines in order: groups with a common beginning, by their first lines; within a group as in the
        file. A file without common beginnings keeps its order.
        """
        # Imported here: `fleet --help` needs no numpy.
        import numpy as np

        hashes = np.frombuffer(self._hashes, dtype=np.uint32).reshape(-1, len(LEVELS))
        keys = [np.arange(len(hashes))]
        for level in reversed(range(len(LEVELS))):
            # Equal hashes of different texts put a group elsewhere, and nothing worse.
            _, first, group = np.unique(hashes[:, level], return_index=True, return_inverse=True)
            keys.append(first[group.reshape(-1)])
        order = np.lexsort(keys)
        offsets = np.frombuffer(self._offsets, dtype=np.uint64)[order]
        numbers = np.frombuffer(self._numbers, dtype=np.uint32)[order]
        return array("Q", offsets.tobytes()), array("I", numbers.tobytes())


def digest_of(numbers: Iterable[int]) -> str:
    """SHA-256 of line numbers, sorted, each as eight bytes: equal only for the same lines."""
    import numpy as np

    made = np.sort(np.fromiter(numbers, dtype="<u8"))
    return sha256(made.tobytes()).hexdigest()


def _hashes(texts: Iterable[str]) -> Iterable[bytes]:
    begin = bytearray()
    for text in texts:
        # A character has at most four bytes, and a text may have millions.
        begin += text[: LEVELS[-1]].encode() + b"\0"
        if len(begin) >= LEVELS[-1]:
            break
    hashed, at = blake2b(digest_size=4), 0
    for level in LEVELS:
        hashed.update(begin[at:level])
        at = level
        yield hashed.digest()
