"""Numbers over time, and the counting of machines and servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.stage.meter import GPU_COUNT_LABEL, GPU_LABEL, Meter, Series
from tests.lab.stage.test_story import FixedClock
from tests.lab.stage.traffic.pods import SERVER, FakeObjects, changed, pod

STEPS = st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 20)), max_size=12)
MOMENTS = st.floats(0, 900)
TWO = st.tuples(MOMENTS, MOMENTS).map(sorted)
THREE = st.tuples(MOMENTS, MOMENTS, MOMENTS).map(sorted)


def series(*steps: tuple[float, int]) -> Series:
    found = Series()
    for at, value in steps:
        found.add(at, value)
    return found


def one_after_the_other(gaps: list[tuple[float, int]]) -> Series:
    at, found = 0.0, Series()
    for gap, value in gaps:
        at += gap
        found.add(at, value)
    return found


def value_at(one: Series, seconds: float) -> int:
    return [value for at, value in one.steps if at <= seconds][-1]


def test_a_number_that_does_not_change_makes_no_step() -> None:
    assert series((1, 3), (2, 3), (3, 4)).steps == [(0.0, 0), (1, 3), (3, 4)]


def test_what_held_at_the_beginning_of_a_window_counts() -> None:
    one = series((10, 3), (20, 1), (30, 2))
    assert one.within(15) == [3, 1, 2]
    assert one.within(20) == [1, 2]
    assert (one.highest(), one.highest(15), one.highest(20)) == (3, 3, 2)
    assert (one.lowest(), one.lowest(15), one.lowest(30)) == (0, 1, 2)
    assert one.now == 2


def test_a_number_is_reached_when_it_is_that_or_more() -> None:
    one = series((10, 3), (20, 1), (30, 5))
    assert one.first_at(2) == 10
    assert one.first_at(4) == 30
    assert one.first_at(6) is None
    assert one.first_at(2, 12) == 12  # it holds already
    assert one.first_at(2, 20) == 30
    assert one.first_at(0) == 0


def test_an_integral_is_the_area_under_the_steps() -> None:
    one = series((10, 3), (20, 1))
    assert one.integral(0, 30) == 3 * 10 + 1 * 10
    assert one.integral(15, 18) == 9
    assert one.integral(5, 12) == 6
    assert one.integral(25, 40) == 15
    assert one.integral(12, 12) == 0


@given(STEPS, THREE)
def test_integrals_of_two_windows_make_that_of_both(gaps: list[tuple[float, int]], moments: list[float]) -> None:
    one = one_after_the_other(gaps)
    first, second, third = moments
    parts = one.integral(first, second) + one.integral(second, third)
    assert parts == pytest.approx(one.integral(first, third), abs=1e-6)


@given(STEPS, TWO)
def test_an_integral_lies_between_its_extremes(gaps: list[tuple[float, int]], moments: list[float]) -> None:
    one = one_after_the_other(gaps)
    first, last = moments
    length = last - first
    area = one.integral(first, last)
    assert one.lowest(first) * length - 1e-6 <= area <= one.highest(first) * length + 1e-6


@given(STEPS, st.integers(0, 20), MOMENTS)
def test_the_first_moment_of_a_number_is_one_at_which_it_holds_and_none_before(
    gaps: list[tuple[float, int]], value: int, since: float
) -> None:
    one = one_after_the_other(gaps)
    at = one.first_at(value, since)
    if at is None:
        assert one.highest(since) < value
        return
    assert at >= since
    assert value_at(one, at) >= value
    assert all(held < value for when, held in one.steps if since <= when < at)


class Counted:
    """A meter and the objects it listens to."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.pods, self.nodes = FakeObjects(), FakeObjects()
        world: Any = SimpleNamespace(clock=self.clock, pods=self.pods, nodes=self.nodes)
        self.meter = Meter(world, SERVER)

    def at(self, seconds: float) -> Counted:
        self.clock.now = seconds
        return self

    @property
    def seen(self) -> tuple[int, int, int]:
        return self.meter.gpu_nodes.now, self.meter.servers.now, self.meter.ready_servers.now


def node(name: str, *, gpu: bool = True, gpus: int = 8) -> Any:
    labels = {GPU_LABEL: "nvidia-b200", GPU_COUNT_LABEL: str(gpus)} if gpu else {}
    return {"metadata": {"name": name, "uid": name, "labels": labels}}


def test_machines_with_gpus_count_from_their_making_to_their_end_ready_or_not() -> None:
    here = Counted()
    here.at(5).nodes.put(node("gpu-1"))
    here.at(6).nodes.put(node("cpu-1", gpu=False))
    here.at(7).nodes.put(node("gpu-2", gpus=1))
    here.at(9).nodes.remove("gpu-1")
    assert here.meter.gpu_nodes.steps == [(0.0, 0), (5, 1), (7, 2), (9, 1)]
    assert here.meter.gpus.steps == [(0.0, 0), (5, 8), (7, 9), (9, 1)]


def test_a_server_counts_until_it_is_told_to_go_and_is_ready_in_between() -> None:
    here = Counted()
    one = pod("a", ready=False)
    here.at(1).pods.put(one)
    assert here.seen == (0, 1, 0)
    one = pod("a", ready=True)
    here.at(2).pods.put(one)
    assert here.seen == (0, 1, 1)
    here.at(3).pods.put(changed(one, deleted_with_grace=15))
    assert here.seen == (0, 0, 0)
    here.at(4).pods.remove("a")
    assert here.meter.ready_servers.steps == [(0.0, 0), (2, 1), (3, 0)]


def test_a_failed_pod_is_no_server_though_it_is_still_there() -> None:
    here = Counted()
    here.at(1).pods.put(pod("a"))
    here.at(2).pods.put(changed(pod("a"), phase="Failed"))
    assert here.seen == (0, 0, 0)


def test_other_pods_do_not_count() -> None:
    here = Counted()
    here.pods.put(pod("benchmark", labels={"app": "benchmark"}))
    here.pods.put(pod("bare", labels={}))
    assert here.seen == (0, 0, 0)
