"""The same work on many things at once, which a Ctrl-C leaves at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], at_once: int) -> list[Result]:
    """What `work` gave for each item, in their order. Raises what any of them raised, without waiting for the others.

    Not a ThreadPoolExecutor: that one waits for its threads when it is left and once more when the program ends, and a connection
    whose network has gone answers after minutes. These threads are daemons.
    """
    todo: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, list[Result], BaseException | None]] = queue.SimpleQueue()
    left = threading.Event()
    for numbered in enumerate(items):
        todo.put(numbered)

    def run() -> None:
        while not left.is_set():
            try:
                number, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, [work(item)], None))
            except BaseException as error:
                left.set()
                done.put((number, [], error))

    for _ in range(min(at_once, len(items))):
        threading.Thread(target=run, daemon=True).start()
    results: dict[int, Result] = {}
    try:
        for _ in items:
            number, result, error = done.get()
            if error is not None:
                raise error
            (results[number],) = result
    finally:
        left.set()
    return [results[number] for number in range(len(items))]
