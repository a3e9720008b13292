from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulators.model_server.answers import Asked
from tests.support.simulators.model_server.engine import Engine, Generation
from tests.support.simulators.model_server.node import Node, Pace
from tests.support.simulators.model_server.outbox import Outbox
from tests.support.simulators.model_server.prefix_cache import PrefixCache


@pytest.mark.parametrize(
    ("moments", "steps"),
    [
        pytest.param((0.005, 0.0101, 0.015, 0.0201), [0, 1, 1, 2], id="steps follow their beat"),
        pytest.param((0.015, 0.135), [1, 13], id="what a busy machine missed is made up for at once"),
        pytest.param((0.4, 0.405, 0.4101), [1, 1, 2], id="on one that is far too late nothing rushes"),
    ],
)
def test_steps_of_10_ms_when_this_machine_looks_again_at_these_moments(
    moments: tuple[float, ...], steps: list[int]
) -> None:
    async def play() -> list[int]:
        now = 0.0
        # The loop's own clock: how late a busy machine is shall be what a test says.
        asyncio.get_running_loop().time = lambda: now  # type: ignore[method-assign]
        engine, made, done = Engine(0, Node(model="m", pace=Pace(fixed_s=0.01)), Outbox()), [], []
        asked = Asked(
            api="completions",
            model="m",
            input_tokens=3,
            output_tokens=50,
            stream=True,
            include_usage=True,
            prompt="a b c",
        )
        engine.submit(Generation(asked, 200, lambda number, *_: made.append(number)))
        for now in moments:  # noqa: B007 - the loop reads it
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append(len(made))
        engine.stop()
        return done

    assert asyncio.run(play()) == steps


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40), st.integers(1, 8))
def test_prefix_hits_are_the_whole_blocks_in_common(first: list[int], second: list[int], block: int) -> None:
    cache = PrefixCache(block)
    cache.add(first)
    common = 0
    while common < min(len(first), len(second) - 1) and first[common] == second[common]:
        common += 1
    assert cache.hit_tokens(second) == common // block * block
