"""A wait that begins with the first call of a `pulumi up` in the background."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from lab.providers.observed import Observed
from lab.results.clock import Clock
from lab.stage.stage import Stage


@pytest.fixture
def observed() -> Observed:
    clock = Clock()
    return Observed(clock)


def waiting(observed: Observed, running: Future[Any]) -> threading.Thread:
    stage: Any = SimpleNamespace(updates=SimpleNamespace(observed=observed))
    thread = threading.Thread(target=Stage.until_applying, args=(stage, running), daemon=True)
    thread.start()
    return thread


def test_calls_at_google_are_no_beginning_and_the_first_object_is(observed: Observed) -> None:
    observed.starts("urn:cluster", "Cluster/a", "create", is_object=False)
    thread = waiting(observed, Future())
    thread.join(0.3)
    assert thread.is_alive()
    observed.starts("urn:server", "Deployment/a", "update", is_object=True)
    thread.join(10)
    assert not thread.is_alive()


def test_an_update_that_ends_without_a_call_is_waited_for_no_longer(observed: Observed) -> None:
    running: Future[Any] = Future()
    thread = waiting(observed, running)
    running.set_result(None)
    thread.join(10)
    assert not thread.is_alive()
