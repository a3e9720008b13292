from __future__ import annotations

import asyncio
import time

from lab.stage.traffic.steady_loop import LONGEST_GAP_WALL_SECONDS, SteadyLoop


def test_a_pause_of_the_process_takes_nobodys_time() -> None:
    async def play() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        done: list[str] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            done.append(name)

        waits = [loop.create_task(wait("later", 0.2)), loop.create_task(wait("sooner", 0.1))]
        await asyncio.sleep(0)
        began = loop.time()
        time.sleep(0.4)
        await asyncio.sleep(0)
        assert not done
        await asyncio.gather(*waits)
        return loop.time() - began, done

    loop = SteadyLoop()
    try:
        took, done = loop.run_until_complete(play())
    finally:
        loop.close()
    assert done == ["sooner", "later"]
    assert took >= 0.19
    assert loop.skipped_wall_seconds >= 0.4 - LONGEST_GAP_WALL_SECONDS - 0.001


def test_many_short_pauses_take_nobodys_time_either() -> None:
    async def play() -> float:
        began = asyncio.get_running_loop().time()
        for _ in range(100):
            time.sleep(LONGEST_GAP_WALL_SECONDS - 0.001)
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time() - began

    loop = SteadyLoop()
    try:
        took = loop.run_until_complete(play())
    finally:
        loop.close()
    assert took < 0.25
    assert loop.skipped_wall_seconds > 0.25


def test_an_idle_loop_skips_next_to_nothing() -> None:
    loop = SteadyLoop()
    began = time.monotonic()
    try:
        loop.run_until_complete(asyncio.sleep(0.3))
    finally:
        loop.close()
    # Less a share of the time than the machine took away: waiting is not a pause.
    assert loop.skipped_wall_seconds <= time.monotonic() - began - 0.29
