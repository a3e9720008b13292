"""One data-parallel engine: steps, prefix cache, drafts, and vLLM's counters."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tests.support.simulators.model_server.answers import Asked, Finish
from tests.support.simulators.model_server.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from tests.support.simulators.model_server.node import Node
    from tests.support.simulators.model_server.outbox import Outbox

_DRAWS: Final = 4096
"""Precomputed draws of accepted drafts, reused in turn: a draw per token would cost more than sending it."""
MOST_BEHIND_SECONDS: Final = 0.25
"""Steps that are late are made up for at once, up to so much: a rate holds on a busy machine. One that is even later starts the
beat anew: the machine is too slow for this pace."""

Emit = Callable[[int, bool, Finish], None]
"""Takes the number of new tokens, whether they are the last, and why it ended."""


class Generation:
    """One request in an engine. `emit` is called after every step and must not fail."""

    __slots__ = ("asked", "cached", "emit", "finish", "generated", "goal")

    def __init__(self, asked: Asked, mean_answer_tokens: int, emit: Emit) -> None:
        self.asked, self.emit = asked, emit
        ends = asked.output_tokens if asked.ignore_eos else mean_answer_tokens
        self.goal = min(ends, asked.output_tokens)
        self.finish: Finish = "stop" if ends < asked.output_tokens else "length"
        self.generated = 0
        self.cached = 0


class Engine:
    """One rank. Lives in one event loop; its steps follow each other while there is work."""

    def __init__(self, rank: int, node: Node, outbox: Outbox, *, drafts_rejected: bool = False) -> None:
        self.rank, self.node, self._outbox = rank, node, outbox
        self.waiting: list[Generation] = []
        self.running: dict[Generation, None] = {}
        self._prefixes = PrefixCache(node.cache.block_tokens) if node.cache.prefix_caching else None
        self._accepted = _draws(node, rank, rejected=drafts_rejected)
        self._draw = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        # Counters, as vLLM names them.
        self.prompt_tokens = 0
        self.prompt_tokens_cached = 0
        self.generation_tokens = 0
        self.finished = Counter[str]()
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.drafts = 0
        self.accepted_by_position = [0] * node.speculative_tokens

    # Work

    def submit(self, generation: Generation) -> None:
        """Queue a request for the next step."""
        self.waiting.append(generation)
        if self._timer is None and not self.running:
            loop = asyncio.get_running_loop()
            self._due = loop.time()
            self._begin_step()
            self._timer = loop.call_at(self._due, self._turn)

    def stop(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def kv_usage(self) -> float:
        """Share of the cache in use, 0 to 1."""
        size = self.node.cache.block_tokens
        return (
            sum(-(-(one.asked.input_tokens + one.generated) // size) for one in self.running) / self.node.cache.blocks
        )

    # Steps

    def _turn(self) -> None:
        """Execute all steps that are due."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._due > MOST_BEHIND_SECONDS:
            self._due = now
        if now - self._due < self.node.pace.fixed_s:
            self._finish_step()
            goes_on = self._begin_step()
        else:
            with self._outbox.held():
                goes_on = True
                while goes_on and self._due <= now:
                    self._finish_step()
                    goes_on = self._begin_step()
        self._timer = loop.call_at(self._due, self._turn) if goes_on else None

    def _begin_step(self) -> bool:
        """Take in what waits and schedule the next step. False without work."""
        for generation in self.waiting:
            self._look_up(generation)
            self.running[generation] = None
        self.waiting.clear()
        self._due += self.node.pace.fixed_s
        return bool(self.running)

    def _finish_step(self) -> None:
        width = self.node.speculative_tokens
        for generation in list(self.running):
            accepted = 0
            if width and generation.generated:
                self._draw = (self._draw + 1) % _DRAWS
                accepted = self._accepted[self._draw]
                self.drafts += 1
                for position in range(accepted):
                    self.accepted_by_position[position] += 1
            if self._prefixes is not None and not generation.generated:
                self._prefixes.add(_units(generation.asked))
            number = min(1 + accepted, generation.goal - generation.generated)
            generation.generated += number
            self.generation_tokens += number
            last = generation.generated >= generation.goal
            if last:
                del self.running[generation]
                self.finished[generation.finish] += 1
            generation.emit(number, last, generation.finish)

    def _look_up(self, generation: Generation) -> None:
        asked = generation.asked
        if self._prefixes is not None:
            self.prefix_queries += asked.input_tokens
            generation.cached = self._prefixes.hit_tokens(_units(asked))
            self.prefix_hits += generation.cached
        self.prompt_tokens += asked.input_tokens
        self.prompt_tokens_cached += generation.cached


def _units(asked: Asked) -> Sequence[Any]:
    """Key of a prompt in the prefix cache: its token numbers or words, the first with the salt."""
    units = asked.prompt.split() if isinstance(asked.prompt, str) else asked.prompt
    return [(asked.salt, units[0]), *units[1:]] if asked.salt and units else units


def _draws(node: Node, rank: int, *, rejected: bool) -> Sequence[int]:
    """Accepted drafts per step; a draft is accepted only if those before it were."""
    if rejected or not node.speculative_tokens:
        return bytes(_DRAWS)
    random_ = random.Random(rank)

    def one() -> int:
        for position in range(node.speculative_tokens):
            if random_.random() >= node.acceptance:
                return position
        return node.speculative_tokens

    return [one() for _ in range(_DRAWS)]
