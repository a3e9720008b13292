"""Prefix cache: whole blocks of earlier prompts, matched by their content and everything before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any


class PrefixCache:
    """Blocks of prompts, evicted by age."""

    def __init__(self, block_tokens: int, blocks: int) -> None:
        self._block_tokens, self._blocks = block_tokens, blocks
        self._known: OrderedDict[int, None] = OrderedDict()

    def hit_tokens(self, units: Sequence[Any]) -> int:
        """Leading tokens of a prompt found in the cache. Never the whole prompt: its last token is always
        computed, as in vLLM.
        """
        found = 0
        for key in self._keys(units[:-1]):
            if key not in self._known:
                break
            self._known.move_to_end(key)
            found += self._block_tokens
        return found

    def add(self, units: Sequence[Any]) -> None:
        """Add a prompt's blocks."""
        for key in self._keys(units):
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._blocks:
            self._known.popitem(last=False)

    def _keys(self, units: Sequence[Any]) -> Iterator[int]:
        before = 0
        for begin in range(0, len(units) - self._block_tokens + 1, self._block_tokens):
            before = hash((before, *units[begin : begin + self._block_tokens]))
            yield before
