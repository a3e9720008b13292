"""Prefill apart from decode: how many engines of a node should read prompts, what that gains, and which side is idle.

An engine that reads prompts and answers in the same steps delays every answer by each prompt. Apart, prefill engines hand each request's
cache to decode engines. The work stays the same. Tokens per second change for two reasons only: decode engines run more sequences per
step, which share its fixed part; and whole engines never match the ratio exactly, so one side is idle.

Pure arithmetic on the times of one engine, from the planner or a trial. Not included: the time of the transfer (`transfer_bytes` has its
size), and a router that sends short prompts straight to decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from facts import memory
from facts.memory import CacheLayout

Idle = Literal["prefill", "decode", "neither"]

# Assumed: below this share of its own capacity a side counts as idle, above it as fitting.
_IDLE_BELOW = 0.75
_HALVINGS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTimes:
    """One engine's times for one kind of request, on all of its GPUs. Raises ValueError for times that are not positive."""

    prompt_s: float
    """One prompt in a step that other prompts fill, too."""
    prompts_per_step: float
    """Prompts in a step that is full of them; below 1 for a prompt of several steps."""
    step_s: float
    """Fixed part of a step."""
    sequence_s: float
    """A running sequence's part of a step, with its tokens."""
    steps: float
    """Steps that decode one request."""
    tokens_per_step: float
    """Tokens that a sequence gains per step: one and the accepted drafts."""
    most_running: float
    """Most sequences that run at once."""

    def __post_init__(self) -> None:
        for name in ("prompt_s", "prompts_per_step", "step_s", "steps", "tokens_per_step", "most_running"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")

    @property
    def prefill_s(self) -> float:
        """One prompt on an engine that does nothing else, at its highest rate."""
        return self.prompt_s + self.step_s / self.prompts_per_step

    def decode_step_s(self, running: float) -> float:
        """A step without prompts."""
        return self.step_s + running * self.sequence_s

    def decode_s(self, running: float) -> float:
        """One request's share of a decode engine that runs so many."""
        return self.steps * self.decode_step_s(running) / running

    @property
    def full_prompt_step_s(self) -> float:
        """The longest step beside running sequences: one that prompts fill."""
        return self.step_s + self.prompts_per_step * self.prompt_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Engines that all read prompts and answer."""

    requests_per_s: float
    running: float
    """Per engine."""
    tpot_s: float
    """Time per output token: each step with the prompts of others in it."""
    longest_gap_s: float
    """Between two chunks of an answer: a step full of prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """The same engines, some of which read prompts only."""

    prefill: int
    decode: int
    requests_per_s: float
    running: float
    """Per decode engine."""
    wait_s: float
    """How long a request waits for a prefill engine, or for room in a decode engine, before its prompt is read."""
    tpot_s: float
    longest_gap_s: float
    """Between two chunks: every step is without prompts."""
    prefill_busy: float
    """Share of the prefill engines' capacity in use."""
    decode_busy: float
    """Share of the decode engines' capacity in use, which they have with every place taken."""

    @property
    def idle(self) -> Idle:
        """The side with much room while the other is full."""
        if self.prefill_busy < _IDLE_BELOW < self.decode_busy:
            return "prefill"
        return "decode" if self.decode_busy < _IDLE_BELOW < self.prefill_busy else "neither"


def ratio(times: EngineTimes, engines: int, in_flight: float) -> float:
    """Prefill engines for one decode engine, so that neither side is idle: the time of a prompt to the decode time of an answer.

    With so many requests in flight on so many engines, of which any fraction could read prompts.
    """
    _check(engines=engines, in_flight=in_flight)
    low, high = 0.0, float(engines)
    for _ in range(_HALVINGS):
        prefill = (low + high) / 2
        decode = engines - prefill
        running = min(_running_unqueued(times, decode, in_flight), times.most_running)
        low, high = (prefill, high) if decode / times.decode_s(running) > prefill / times.prefill_s else (low, prefill)
    return low / (engines - low)


def together(times: EngineTimes, engines: int, in_flight: float) -> Together:
    """Those engines with so many requests in flight. Raises ValueError without an engine or a request."""
    _check(engines=engines, in_flight=in_flight)
    running = min(in_flight / engines, times.most_running)
    request_s = times.prompt_s + times.steps * times.sequence_s
    shared = max(1.0, running)
    rate = min(1.0, running) / (request_s + times.steps * times.step_s / shared)
    step_s = running / (rate * times.steps)
    return Together(
        requests_per_s=engines * rate,
        running=running,
        tpot_s=(step_s - times.prompt_s / times.steps) / times.tokens_per_step,
        longest_gap_s=times.full_prompt_step_s + running * times.sequence_s,
    )


def apart(times: EngineTimes, prefill: int, decode: int, in_flight: float) -> Apart:
    """So many engines of each kind with so many requests in flight. Raises ValueError without one of each, or without a request."""
    _check(prefill=prefill, decode=decode, in_flight=in_flight)
    most_prefill = prefill / times.prefill_s
    most_decode = decode / times.decode_s(times.most_running)
    running = min(_running_unqueued(times, decode, in_flight), times.most_running)
    rate = decode / times.decode_s(running)
    if rate > most_prefill:
        rate = most_prefill
        running = _running_at(times, rate / decode)
    return Apart(
        prefill=prefill,
        decode=decode,
        requests_per_s=rate,
        running=running,
        wait_s=max(0.0, (in_flight - decode * running) / rate - times.prefill_s),
        tpot_s=times.decode_step_s(running) / times.tokens_per_step,
        longest_gap_s=times.decode_step_s(running),
        prefill_busy=rate / most_prefill,
        decode_busy=rate / most_decode,
    )


def best(times: EngineTimes, engines: int, in_flight: float) -> Apart | None:
    """The split of a node's engines with the most requests a second; of equal ones that with more decode. None for one engine."""
    splits = (apart(times, prefill, engines - prefill, in_flight) for prefill in range(1, engines))
    return max(splits, key=lambda one: one.requests_per_s, default=None)


def transfer_bytes(layout: CacheLayout, prompt_tokens: int) -> int:
    """Bytes that one request's cache takes from prefill to decode on one GPU of an engine: whole blocks, and a state of each linear layer.

    Measured with Qwen3.5-27B in FP8 (facts/data/disaggregation.yaml): the same for any prompt within one block, one block more for each
    further one. So short prompts pay most for each token.
    """
    blocks = memory.running_blocks_per_request(layout, prompt_tokens)
    # A running sequence also keeps a state for each draft token, which is not sent.
    return (blocks - memory.linear_groups(layout) * layout.speculative_tokens) * memory.pool_block_bytes(layout)


def _running_unqueued(times: EngineTimes, decode: float, in_flight: float) -> float:
    """Sequences per decode engine if no prompt waits: those in flight less those whose prompt is read.

    in flight = decode x running + rate x prefill, with rate = decode x running / (steps x step(running)): a quadratic in running.
    """
    step, sequence = times.steps * times.step_s, times.steps * times.sequence_s
    each = in_flight / decode
    linear = step + times.prefill_s - each * sequence
    if not sequence:
        return each * step / (step + times.prefill_s)
    return (sqrt(linear**2 + 4 * sequence * each * step) - linear) / (2 * sequence)


def _running_at(times: EngineTimes, requests_per_s: float) -> float:
    """Sequences that one decode engine runs at that rate, which is below its highest."""
    spare = 1 / requests_per_s - times.steps * times.sequence_s
    return times.steps * times.step_s / spare


def _check(**counts: float) -> None:
    for name, count in counts.items():
        if not count > 0:
            raise ValueError(f"{name} must be above 0, got {count}")
