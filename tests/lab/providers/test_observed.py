"""What the providers saw of an operation, and an operation that waits before its first change."""

from __future__ import annotations

import threading

from lab.providers.observed import Observed
from lab.results.clock import Clock


def observed() -> Observed:
    clock = Clock(600)
    return Observed(clock)


def test_an_operation_begins_with_its_first_object_and_without_one_with_its_end() -> None:
    one = observed()
    before = one.began_seconds
    assert one.began_seconds >= before
    one.starts("google", "Network/net", "create", is_object=False)
    one.ends("google", "Network/net", "create")
    one.starts("a", "ConfigMap/a", "create", is_object=True)
    began = one.began_seconds
    one.starts("b", "ConfigMap/b", "create", is_object=True)
    assert one.began_seconds == began == one.started_seconds["a"]
    one.ends("a", "ConfigMap/a", "create", "refused")
    assert (list(one.finished_seconds), one.failed) == (["google"], {"a": "refused"})
    one.begin()
    assert (one.started_seconds, one.failed) == ({}, {})


def test_a_killed_operation_is_over_when_its_last_call_has_ended() -> None:
    one = observed()
    one.starts("a", "Job/a", "create", is_object=True)
    waiting = threading.Thread(target=one.until_idle)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    one.ends("a", "Job/a", "create", "cancelled")
    waiting.join(5)
    assert not waiting.is_alive()
