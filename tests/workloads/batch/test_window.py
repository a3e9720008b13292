from __future__ import annotations

import random

from workloads.batch.pods.times import Times
from workloads.batch.pods.window import FIRST, LEAST, Gate, Queues, Window


def test_it_doubles_until_something_waits_and_then_follows() -> None:
    window = Window(1_000)
    for running in (16, 32, 64, 128):
        assert window.limit == running
        window.adapt(Queues(1, running, 0, is_read=True), running)
    window.adapt(Queues(1, 200, 60, is_read=True), 256)
    assert window.limit == 204
    window.adapt(Queues(1, 200, 4, is_read=True), 204)
    assert window.limit == 204, "a short queue is what it wants"
    window.adapt(Queues(1, 204, 0, is_read=True), 204)
    assert 205 < window.limit < 220
    limit = window.limit
    window.adapt(Queues(2, 204, 0, is_read=True), limit)
    assert window.limit == 2 * limit, "a further server takes as many"


def test_what_is_not_used_or_not_read_says_nothing() -> None:
    window = Window(1_000)
    window.adapt(Queues(1, 3, 0, is_read=True), 3)
    window.adapt(Queues(0), FIRST)
    window.adapt(Queues(2), FIRST)
    assert window.limit == FIRST


def test_it_stays_within_its_bounds() -> None:
    window = Window(20)
    for _ in range(9):
        window.adapt(Queues(1, 20, 0, is_read=True), window.limit)
    assert window.limit == 20
    for _ in range(99):
        window.shrink()
    assert window.limit == LEAST
    assert Window(2).limit == 2


def test_failures_of_one_moment_are_one_and_pauses_grow_until_an_answer() -> None:
    gate = Gate(Times(), random.Random(1))
    assert gate.enter(0.0) == 0.0
    for _ in range(100):
        gate.failed(10.0, 1.0)  # in flight together
    assert 0 < gate.enter(10.0) <= 0.5
    pauses = []
    now = 10.0
    for _ in range(12):
        pauses.append(gate.enter(now))
        now += pauses[-1] + 1e-6
        assert gate.enter(now) == 0.0
        assert gate.enter(now) > 0.0, "one at a time"
        gate.failed(now, now)
    assert max(pauses) <= 60
    assert pauses[-1] > 29
    gate.answered()
    assert gate.enter(now) == 0.0
    assert gate.enter(now) == 0.0
