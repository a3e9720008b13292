"""Parallel work that Ctrl-C interrupts immediately."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    at_once: int,
    each: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """Results of `work` for each item, in order. Raises the first error without waiting for the others. `each` is called in this thread
    with every result as it comes, and no more after an error.

    Not a ThreadPoolExecutor, which waits for its threads on exit and at the program's end, while a connection
    without network may hang for minutes. These threads are daemons.
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
            each(results[number])
    finally:
        left.set()
    return [results[number] for number in range(len(items))]
