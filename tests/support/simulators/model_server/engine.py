"""One data-parallel engine: queue, batch in steps, block cache, and vLLM's counters."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tests.support.simulators.model_server.answers import Asked, Finish, prefix_units
from tests.support.simulators.model_server.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from tests.support.simulators.clock import Clock
    from tests.support.simulators.model_server.node import Node
    from tests.support.simulators.model_server.outbox import Outbox

_DRAWS: Final = 4096
"""Precomputed draws of accepted drafts, reused in turn: a draw per token would cost more than sending it."""
MOST_BEHIND_SECONDS: Final = 0.25
"""Of the wall. Steps that are late are made up for at once, up to so much: a rate holds on a busy machine. One that is even
later starts the beat anew: the machine is too slow for this pace."""

Emit = Callable[[int, bool, Finish], None]
"""Takes the number of new tokens, whether they are the last, and why it ended."""


class Generation:
    """One request in an engine. `emit` is called after every step and must not fail."""

    __slots__ = (
        "asked",
        "blocks",
        "cached",
        "emit",
        "generated",
        "goal",
        "natural_end",
        "prompt_left",
        "rank",
    )

    def __init__(self, asked: Asked, goal: int, natural_end: bool, emit: Emit) -> None:
        self.asked, self.goal, self.natural_end, self.emit = asked, goal, natural_end, emit
        self.generated = 0
        self.prompt_left = asked.input_tokens
        self.cached = 0
        self.blocks = 0
        self.rank = 0

    @property
    def finish(self) -> Finish:
        """Finish reason at its target length."""
        return "stop" if self.natural_end else "length"


def goal_of(asked: Asked, mean_answer_tokens: int) -> tuple[int, bool]:
    """How long the answer gets, and whether the model ends it. The same prompt ends at the same place, from a quarter to
    seven quarters of the mean.
    """
    if asked.ignore_eos:
        return asked.output_tokens, False
    digest = zlib.crc32(repr(asked.prompt).encode())
    natural = max(1, round(mean_answer_tokens * (0.25 + 1.5 * (digest % 10_007) / 10_007)))
    ends = max(natural, asked.least_tokens)
    return min(ends, asked.output_tokens), ends < asked.output_tokens


class Engine:
    """One rank. Lives in one event loop; its steps follow each other while there is work."""

    def __init__(
        self,
        rank: int,
        node: Node,
        clock: Clock,
        outbox: Outbox,
        *,
        drafts_rejected: bool = False,
    ) -> None:
        self.rank, self.node, self._clock, self._outbox = rank, node, clock, outbox
        self.waiting: deque[Generation] = deque()
        self.running: dict[Generation, None] = {}
        self.blocks_used = 0
        self._prefixes = PrefixCache(node.cache.block_tokens, node.cache.blocks) if node.cache.prefix_caching else None
        self._accepted = _draws(node, rank, rejected=drafts_rejected)
        self._draw = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._step_wall_seconds = 0.0
        self._prefilled: list[Generation] = []
        # Counters, as vLLM names them.
        self.prompt_tokens = 0
        self.prompt_tokens_cached = 0
        self.generation_tokens = 0
        self.finished = Counter[str]()
        self.preemptions = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.drafts = 0
        self.accepted_by_position = [0] * node.speculative_tokens
        self.steps = 0

    # Work

    def submit(self, generation: Generation) -> None:
        """Queue a request."""
        generation.rank = self.rank
        self.waiting.append(generation)
        if self._timer is None and not self.running:
            loop = asyncio.get_running_loop()
            self._due = loop.time()
            self._begin_step()
            self._timer = loop.call_at(self._due, self._turn)

    def abort(self, generation: Generation) -> None:
        """Drop an aborted request. Has no effect on a finished one."""
        if generation in self.running:
            self._release(generation)
        elif generation in self.waiting:
            self.waiting.remove(generation)
        else:
            return
        self.finished["abort"] += 1

    def stop(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waiting.clear()

    @property
    def kv_usage(self) -> float:
        """Share of the cache in use, 0 to 1."""
        return self.blocks_used / self.node.cache.blocks

    # Steps

    def _turn(self) -> None:
        """Execute all steps that are due."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._due > MOST_BEHIND_SECONDS:
            self._due = now
        if now - self._due < self._step_wall_seconds:
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
        """Schedule the next step. False without work."""
        decoding = sum(not generation.prompt_left for generation in self.running)
        width = 1 + self.node.speculative_tokens
        prompt_tokens = self._admit(self.node.max_num_batched_tokens - decoding * width)
        if not self.running:
            return False
        seconds = self.node.pace.step_s(len(self.running), decoding * width + prompt_tokens)
        self._step_wall_seconds = self._clock.wall_seconds(seconds)
        self._due += self._step_wall_seconds
        self.steps += 1
        return True

    def _finish_step(self) -> None:
        width = self.node.speculative_tokens
        first = self._prefilled
        self._prefilled = []
        for generation in list(self.running):
            if generation.prompt_left or generation not in self.running:  # still reading, or preempted in this step
                continue
            accepted = 0
            if width and generation.generated:
                self._draw = (self._draw + 1) % _DRAWS
                accepted = self._accepted[self._draw]
                self.drafts += 1
                for position in range(accepted):
                    self.accepted_by_position[position] += 1
            number = min(1 + accepted, generation.goal - generation.generated)
            generation.generated += number
            self.generation_tokens += number
            if generation.generated >= generation.goal:
                self._release(generation)
                self.finished[generation.finish] += 1
                generation.emit(number, True, generation.finish)
            else:
                generation.emit(number, False, generation.finish)
                self._grow(generation)
        for generation in first:
            if self._prefixes is not None and generation in self.running:
                self._prefixes.add(prefix_units(generation.asked))

    def _admit(self, budget: int) -> int:
        """Assign the step's tokens to prompts, oldest first; returns the number."""
        spent = 0
        for generation in self.running:
            if generation.prompt_left and spent < budget:
                spent += self._read(generation, budget - spent)
        while self.waiting and len(self.running) < self.node.max_num_seqs and spent < budget:
            generation = self.waiting[0]
            blocks = self._blocks_of(generation.asked.input_tokens + generation.generated + 1)
            if self.blocks_used + blocks > self.node.cache.blocks and self.running:
                break
            self.waiting.popleft()
            self.blocks_used += blocks
            generation.blocks = blocks
            self.running[generation] = None
            self._look_up(generation)
            spent += self._read(generation, budget - spent)
        return spent

    def _look_up(self, generation: Generation) -> None:
        asked = generation.asked
        generation.prompt_left = asked.input_tokens + generation.generated
        if self._prefixes is not None and not generation.generated:
            self.prefix_queries += asked.input_tokens
            found = self._prefixes.hit_tokens(prefix_units(asked))
            if self.node.speculative_tokens and found:
                # The draft layer needs the last block's hidden states, so that block is computed again.
                # Source: vLLM 0.18.1, v1/core/single_type_kv_cache_manager.py, use_eagle.
                found -= self.node.cache.block_tokens
            # Never the whole prompt, however its tokens were counted.
            generation.cached = min(found, asked.input_tokens - 1)
            self.prefix_hits += generation.cached
            generation.prompt_left -= generation.cached

    def _read(self, generation: Generation, budget: int) -> int:
        number = min(budget, generation.prompt_left)
        generation.prompt_left -= number
        if not generation.prompt_left:
            self._prefilled.append(generation)
            if not generation.generated:
                self.prompt_tokens += generation.asked.input_tokens
                self.prompt_tokens_cached += generation.cached
        return number

    # Cache

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.node.cache.block_tokens)

    def _grow(self, generation: Generation) -> None:
        needed = self._blocks_of(generation.asked.input_tokens + generation.generated + 1) - generation.blocks
        if needed <= 0:
            return
        while self.blocks_used + needed > self.node.cache.blocks and len(self.running) > 1:
            last = next(reversed(self.running))
            self._preempt(last)
            if last is generation:
                return
        self.blocks_used += needed
        generation.blocks += needed

    def _preempt(self, generation: Generation) -> None:
        """Preempt: requeue at the head; its tokens are recomputed later."""
        self._release(generation)
        self.preemptions += 1
        self.waiting.appendleft(generation)

    def _release(self, generation: Generation) -> None:
        del self.running[generation]
        self.blocks_used -= generation.blocks
        generation.blocks = 0


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
