"""The order of an apply."""

from __future__ import annotations

import threading
import time

import pytest

from fleet.rehearse.apply.graph import reversed_graph, walk

DIAMOND = {"bottom": set[str](), "left": {"bottom"}, "right": {"bottom"}, "top": {"left", "right"}}


def test_everything_starts_after_all_it_needs() -> None:
    done: list[str] = []
    lock = threading.Lock()

    def work(urn: str) -> bool:
        with lock:
            assert set(done) >= DIAMOND[urn]
            done.append(urn)
        return True

    assert set(walk(DIAMOND, work, 4).done) == set(DIAMOND)
    assert done[0] == "bottom"
    assert done[-1] == "top"


def test_what_does_not_depend_on_each_other_runs_at_once() -> None:
    together = threading.Barrier(2, timeout=5)

    def work(urn: str) -> bool:
        if urn in ("left", "right"):
            together.wait()
        return True

    assert walk(DIAMOND, work, 2).failed == ()


def test_no_more_run_at_once_than_allowed() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(_: str) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return True

    walk({str(index): set() for index in range(20)}, work, 3)
    assert most == 3


def test_after_a_failure_nothing_new_starts_and_what_runs_ends() -> None:
    needs = {"slow": set[str](), "wrong": set[str](), "after slow": {"slow"}, "after wrong": {"wrong"}}
    failed = threading.Event()

    def work(urn: str) -> bool:
        if urn == "slow":
            failed.wait(5)
            time.sleep(0.02)
            return True
        failed.set()
        return False

    walked = walk(needs, work, 4)
    assert walked.done == ("slow",)
    assert walked.failed == ("wrong",)
    assert walked.skipped == ("after slow", "after wrong")


def test_an_exception_of_the_work_comes_out() -> None:
    def work(urn: str) -> bool:
        raise LookupError(urn)

    with pytest.raises(LookupError, match="bottom"):
        walk(DIAMOND, work, 4)


def test_what_runs_is_told_to_end_when_something_breaks() -> None:
    told = threading.Event()

    def work(urn: str) -> bool:
        if urn == "breaks":
            raise KeyboardInterrupt
        return told.wait(5)

    with pytest.raises(KeyboardInterrupt):
        walk({"breaks": set(), "waits": set()}, work, 2, told.set)
    assert told.is_set()


def test_reversed_graph_what_is_needed_goes_last() -> None:
    done: list[str] = []
    walk(reversed_graph(DIAMOND), lambda urn: done.append(urn) is None, 1)
    assert done[0] == "top"
    assert done[-1] == "bottom"
