from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simulators.clock import Clock
from tests.support.simulators.model_server.answers import Asked, Finish
from tests.support.simulators.model_server.engine import Engine, Generation, goal_of
from tests.support.simulators.model_server.node import Cache, Evenly, Node, Pace, from_plain
from tests.support.simulators.model_server.outbox import Outbox
from tests.support.simulators.model_server.prefix_cache import PrefixCache
from tests.support.simulators.model_server.routing import Router


def asked(**fields: Any) -> Asked:
    return Asked(
        **{
            "api": "completions",
            "model": "m",
            "input_tokens": 3,
            "output_tokens": 50,
            "stream": True,
            "include_usage": True,
            "prompt": "a b c",
            **fields,
        }
    )


def node(**fields: Any) -> Node:
    return Node(**{"model": "m", "ranks": 1, "pace": Pace(fixed_s=0.01), **fields})


def engine(of: Node | None = None, rank: int = 0) -> Engine:
    return Engine(rank, of or node(), Clock(1.0), Outbox())


def steps_at(*moments: float) -> list[int]:
    """Steps of 10 ms that are done when this machine looks again at each of these moments."""

    async def play() -> list[int]:
        now = 0.0
        # The loop's own clock: how late a busy machine is shall be what a test says.
        asyncio.get_running_loop().time = lambda: now  # type: ignore[method-assign]
        one, steps, done = engine(), [], []
        one.submit(Generation(asked(), 500, False, lambda number, *_: steps.append(number)))
        for now in moments:  # noqa: B007 - the loop reads it
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append(len(steps))
        one.stop()
        return done

    return asyncio.run(play())


def test_steps_follow_their_beat() -> None:
    assert steps_at(0.005, 0.0101, 0.015, 0.0201) == [0, 1, 1, 2]


def test_steps_that_a_busy_machine_missed_are_made_up_for_at_once() -> None:
    assert steps_at(0.015, 0.135) == [1, 13]


def test_on_a_machine_that_is_far_too_late_nothing_rushes() -> None:
    assert steps_at(0.4, 0.405, 0.4101) == [1, 1, 2]


def test_long_prompts_are_read_over_several_steps() -> None:
    async def play() -> tuple[list[float], Engine]:
        one = engine(node(max_num_batched_tokens=10, pace=Pace(fixed_s=0.002)))
        done = asyncio.Event()
        ends: list[float] = []

        def emit(_: int, last: bool, __: Finish) -> None:
            ends.append(one.steps)
            if last:
                done.set()

        one.submit(Generation(asked(input_tokens=45), 3, False, emit))
        await asyncio.wait_for(done.wait(), 5)
        return ends, one

    ends, one = asyncio.run(play())
    assert ends[0] == 5
    assert one.prompt_tokens == 45
    assert (one.generation_tokens, one.finished, one.blocks_used) == (3, {"length": 1}, 0)


@given(st.floats(0, 1), st.integers(1, 300))
def test_a_share_is_spread_evenly(share: float, number: int) -> None:
    chosen = Evenly(share)
    assert abs(sum(chosen() for _ in range(number)) - share * number) <= 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_the_least_loaded_engine_is_chosen_and_what_was_sent_counts(loads: list[tuple[int, int]]) -> None:
    async def choose() -> list[int]:
        engines = [engine(rank=rank) for rank in range(len(loads))]
        for one, (waiting, running) in zip(engines, loads, strict=True):
            new = [Generation(asked(), 1, False, lambda *_: None) for _ in range(waiting + running)]
            one.waiting.extend(new[:waiting])
            one.running.update(dict.fromkeys(new[waiting:]))
        router = Router(engines, Clock(1.0))
        return [router.choose(None).rank for _ in range(3)]

    counts = [[waiting, running] for waiting, running in loads]
    expected = []
    for _ in range(3):
        best = min(range(len(counts)), key=lambda rank: 4 * counts[rank][0] + counts[rank][1])
        counts[best][0] += 1
        expected.append(best)
    assert asyncio.run(choose()) == expected


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40), st.integers(1, 8))
def test_prefix_hits_are_the_whole_blocks_in_common(first: list[int], second: list[int], block: int) -> None:
    cache = PrefixCache(block, 1000)
    cache.add(first)
    common = 0
    while common < min(len(first), len(second) - 1) and first[common] == second[common]:
        common += 1
    assert cache.hit_tokens(second) == common // block * block


def test_the_oldest_prefixes_are_forgotten() -> None:
    cache = PrefixCache(2, 2)
    cache.add([1, 2, 3, 4])
    cache.add([5, 6])
    assert cache.hit_tokens([1, 2, 3, 4, 9]) == 0
    assert cache.hit_tokens([5, 6, 9]) == 2


@settings(max_examples=50)
@given(st.text(max_size=20), st.integers(1, 400), st.integers(1, 500), st.integers(0, 60))
def test_an_answer_ends_within_what_was_asked(prompt: str, mean: int, most: int, least: int) -> None:
    least = min(least, most)
    goal, stops = goal_of(asked(prompt=prompt, output_tokens=most, least_tokens=least), mean)
    assert max(1, least) <= goal <= most
    assert stops == (goal < most) or goal == most
    assert goal_of(asked(prompt=prompt, output_tokens=most, ignore_eos=True), mean) == (most, False)


def test_a_node_survives_the_way_to_another_process() -> None:
    import json
    from dataclasses import asdict

    there = node(cache=Cache(blocks=7, labels={"a": "b"}), speculative_tokens=2)
    assert from_plain(Node, json.loads(json.dumps(asdict(there)))) == there


def test_what_is_held_goes_out_in_one_piece() -> None:
    class Connection:
        def __init__(self) -> None:
            self.written: list[bytes] = []

        def write(self, content: bytes) -> None:
            self.written.append(content)

        def is_closing(self) -> bool:
            return False

    outbox, one, other = Outbox(), Connection(), Connection()
    outbox.write(one, b"a")  # type: ignore[arg-type]
    with outbox.held():
        for connection, content in ((one, b"b"), (other, b"c"), (one, b"d")):
            outbox.write(connection, content)  # type: ignore[arg-type]
        assert other.written == []
    assert (one.written, other.written) == ([b"a", b"bd"], [b"c"])
